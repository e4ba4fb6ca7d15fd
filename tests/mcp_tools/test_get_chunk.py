"""get_chunk: the code behind every name that a row, an agent or a user may give, and errors that say what there is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from flows.errors import GitstrataError, UsageError
from flows.select import Rules
from mcp_tools import render
from mcp_tools.chunks import get_chunk
from mcp_tools.code_search import code_search
from mcp_tools.index import Index
from tests.conftest import Indexer
from tests.mcp_tools.conftest import FILES, RETRY_PY
from tests.repos import Repo

HTTP = {"repo": "acme/http"}


def cut(text: str, start: int, end: int) -> str:
    return "\n".join(text.split("\n")[start - 1 : end])


@pytest.mark.parametrize(
    ("source_id", "anchor", "start", "end"),
    [
        ("src/retry.py#RetryPolicy.wait", "RetryPolicy.wait", 14, 15),
        ("src/retry.py#wait", "RetryPolicy.wait", 14, 15),  # the last part of its name
        ("src/retry.py#unit", "unit", 18, 19),
        ("src/retry.py#module", "module", 1, 1),
        ("src/retry.py#RetryPolicy", "RetryPolicy", 4, 15),
        ("src/retry.py#file", "file", 1, 19),
        ("src/retry.py", "file", 1, 19),  # a path alone
        ("./src/retry.py", "file", 1, 19),
        ("src/retry.py#L14-L15", "RetryPolicy.wait", 14, 15),  # exactly
        ("src/retry.py#L14-15", "RetryPolicy.wait", 14, 15),
        ("src/retry.py#L15", "RetryPolicy.wait", 14, 15),  # inside
        ("src/retry.py#L9", "RetryPolicy", 4, 15),  # between two methods
        ("src/retry.py#L8-L11", "RetryPolicy", 4, 15),  # over two methods
        ("src/retry.py#L13-L300", "RetryPolicy", 4, 15),  # beyond the end: the most of it
        ("src/retry.py#L1-L300", "file", 1, 19),
        ("src/retry.py#L0", "module", 1, 1),
        ("src/client.ts#parseRetryAfter", "Client.constructor", 2, 6),  # small ones share a chunk
        ("windows.py#second", "first", 1, 6),
    ],
)
def test_names_and_lines(library: Index, source_id: str, anchor: str, start: int, end: int) -> None:
    answer = get_chunk(library, source_id, **HTTP)
    path = source_id.partition("#")[0].removeprefix("./")
    assert (answer.source_id, answer.url) == (f"{path}#{anchor}", f"{path}#L{start}-L{end}")
    assert answer.text == cut(FILES[path], start, end)


def test_an_answer_says_all_of_its_place(library: Index, golden: Callable[[str, str], None]) -> None:
    answer = get_chunk(library, "src/retry.py#RetryPolicy.parse_retry_after", **HTTP)
    assert (answer.repo, answer.branch, answer.symbol) == ("acme/http", "main", "RetryPolicy.parse_retry_after")
    assert (answer.language, answer.level, len(answer.commit)) == ("python", "method", 40)
    assert (answer.truncated, answer.note) == (False, "")
    golden("chunk", render.chunk_text(answer))


def test_every_row_of_a_search_can_be_read(library: Index) -> None:
    for branch in ("", "feature"):
        filters = {"repo": "acme/http", "branch": branch}
        rows = code_search(library, "header request retry hash newline", limit=50, **filters).result  # type: ignore[arg-type]
        assert len(rows) > 10
        for row in rows:
            for name in (row.source_id, row.url):
                answer = get_chunk(library, name, **filters)  # type: ignore[arg-type]
                assert answer.text
                assert answer.url == row.url and answer.language == row.language
            assert get_chunk(library, row.source_id, **filters).source_id == row.source_id  # type: ignore[arg-type]


def test_a_name_of_several_is_the_first_and_says_so(index: Indexer, reader: Index, repo: Repo) -> None:
    body = "\n".join(f"        total += {i} * step  # a line that makes the method long enough" for i in range(12))
    repo.commit(a_py="\n\n".join(f"class {name}:\n    def run(self, step, total):\n{body}\n" for name in "ABC"))
    index(repo)
    answer = get_chunk(reader, "a.py#run")
    assert answer.source_id == "a.py#A.run"
    assert "3 definitions are called run: A.run L2-L14, B.run" in answer.note and "this is the first" in answer.note
    assert get_chunk(reader, "a.py#B.run").note == ""
    with pytest.raises(UsageError, match=r"no 'C\.rum' in a\.py; did you mean C\.run\? it has: A, A\.run, B"):
        get_chunk(reader, "a.py#C.rum")


def test_a_definition_inside_a_shared_chunk_says_where(library: Index) -> None:
    assert get_chunk(library, "windows.py#second", **HTTP).note == "second L5-L6 is in this chunk"


def test_a_symbol_that_looks_like_lines_is_found(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="x = 1\n\n\ndef L1():\n    return 'the function'\n")
    index(repo)
    assert "the function" in get_chunk(reader, "a.py#L1").text


@pytest.mark.parametrize(
    ("name", "level", "anchor"),
    [
        ("RetryPolicy.wait", "class", "RetryPolicy"),
        ("RetryPolicy.wait", "file", "file"),
        ("RetryPolicy.wait", "method", "RetryPolicy.wait"),
        ("RetryPolicy.wait", "block", "RetryPolicy.wait"),
        ("unit", "class", "file"),  # the nearest around it
        ("RetryPolicy", "method", "RetryPolicy"),  # never narrower
    ],
)
def test_widening(library: Index, name: str, level: str, anchor: str) -> None:
    answer = get_chunk(library, f"src/retry.py#{name}", level=level, **HTTP)
    assert answer.source_id == f"src/retry.py#{anchor}"


@pytest.mark.parametrize(
    ("name", "level", "note"),
    [
        ("RetryPolicy.wait", "class", ""),
        ("unit", "class", "no class is around src/retry.py#unit: this is its file"),
        ("RetryPolicy", "method", "src/retry.py#RetryPolicy is a class, wider than a method already"),
    ],
)
def test_a_level_that_is_not_there_is_said(library: Index, name: str, level: str, note: str) -> None:
    assert get_chunk(library, f"src/retry.py#{name}", level=level, **HTTP).note == note


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_context_is_beside_the_chunk_and_overlaps_nothing(library: Index, count: int) -> None:
    for name in ("src/retry.py#RetryPolicy.parse_retry_after", "long.py#L30", "src/retry.py#RetryPolicy"):
        repo = "acme/many" if name.startswith("long") else "acme/http"
        answer = get_chunk(library, name, repo=repo, context=count)
        places = []
        for piece in [answer, *answer.context]:
            start, _, end = piece.url.rpartition("#L")[2].partition("-L")
            places.append((int(start), int(end)))
            assert get_chunk(library, piece.source_id, repo=repo, context=0).text == piece.text
        assert len(answer.context) <= 2 * count
        assert places[1:] == sorted(places[1:])
        ordered = sorted(places)
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(ordered))
    around = [n.source_id for n in get_chunk(library, "src/retry.py#RetryPolicy.parse_retry_after", **HTTP).context]
    assert around == ["src/retry.py#RetryPolicy.__init__", "src/retry.py#RetryPolicy.wait"]


def test_max_chars_cuts_and_says_so(library: Index) -> None:
    answer = get_chunk(library, "src/retry.py", max_chars=50, **HTTP)
    assert answer.truncated and answer.text == RETRY_PY[:50]
    assert "max_chars" in answer.note and answer.note in render.chunk_text(answer)
    method = "    def wait(self, attempt: int) -> float:\n        return 2.0**attempt"
    alone = get_chunk(library, "src/retry.py#wait", max_chars=len(method), **HTTP)
    assert (alone.text, alone.context, alone.truncated) == (method, [], True)
    assert not get_chunk(library, "src/retry.py#wait", max_chars=40_000, **HTTP).truncated


def test_lines_of_a_huge_file_are_those_asked_for(index: Indexer, reader: Index, repo: Repo) -> None:
    body = "\n".join(f"    value = value + {i}  # some more text on this line" for i in range(8))
    repo.commit(a_py="\n\n\n".join(f"def function_{i}(value):\n{body}\n    return value" for i in range(200)) + "\n")
    index(repo)
    lines = (repo.path / "a.py").read_text().split("\n")
    start = lines.index("def function_150(value):") + 1
    answer = get_chunk(reader, f"a.py#L{start + 5}-L{start + 14}")  # over two functions
    assert not answer.truncated and "def function_15" in answer.text


def test_a_path_in_several_repositories_asks_which(library: Index) -> None:
    with pytest.raises(UsageError, match=r"README\.md is in several repositories \(acme/http, acme/copy\): say which"):
        get_chunk(library, "README.md")
    assert "Somebody's copy" in get_chunk(library, "README.md", repo="acme/copy").text


@pytest.mark.parametrize(
    "source_id",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "src/../../x",
        "..",
        "",
        "/",
        "src/../src/retry.py#wait",
        "/etc/passwd#L1",
    ],
)
def test_names_that_leave_the_repository_are_refused(library: Index, source_id: str) -> None:
    with pytest.raises(UsageError, match="is no source_id: pass a row's source_id"):  # P115
        get_chunk(library, source_id, **HTTP)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source_id": "src/retry.py", "repo": "../x"}, "unknown repo '../x'"),
        ({"source_id": "src/retry.py", "branch": "mian"}, "unknown branch 'mian': did you mean 'main'"),
        (
            {"source_id": "retry.py"},
            r"no file retry\.py in acme/bare .*; did you mean lib/retry\.py, src-old/retry.py, src/retry\.py\?",
        ),
        ({"source_id": "src/retyr.py#wait"}, r"no file src/retyr\.py in .*; search for it with code_search"),
        ({"source_id": "lib/retry.py#nope", "repo": "acme/copy"}, "no 'nope' in lib/retry.py; it has: RetryPolicy"),
        ({"source_id": "lib/retry.py#L20", "repo": "acme/copy"}, "lib/retry.py ends at line 19: there is no line 20"),
        ({"source_id": "logo.png", "repo": "acme/http"}, "logo.png is not indexed: binary"),
        ({"source_id": "logo.png#L1", "repo": "acme/http"}, "logo.png is not indexed: binary"),
        ({"source_id": "x", "context": 4}, "context is 4: use 0 to 3"),
        ({"source_id": "x", "context": -1}, "context is -1: use 0 to 3"),
        ({"source_id": "x", "max_chars": 0}, "max_chars is 0: use 1 to 40000"),
        ({"source_id": "x", "max_chars": 40_001}, "max_chars is 40001"),
        ({"source_id": "x", "level": "any"}, "unknown level 'any': use file, class, method, block"),
    ],
)
def test_errors_say_what_there_is(library: Index, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        get_chunk(library, **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "source_id",
    [
        "\0",
        "a\0b#c",
        "\ud800",
        "x" * 100_000,
        "😀#重试",
        "'; drop table file; --",
        "a#b#c#d",
        "%s",
        "a\\",
        "(((",
        "src",
    ],
)
def test_odd_names_are_one_sentence(library: Index, source_id: str) -> None:
    with pytest.raises(GitstrataError) as caught:
        get_chunk(library, source_id)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1_000


def test_an_empty_index_and_an_empty_file_say_so(index: Indexer, reader: Index, repo: Repo) -> None:
    with pytest.raises(UsageError, match="The index is empty"):
        get_chunk(reader, "a.py")
    repo.commit(a_py="", b_py="b = 1\n")
    index(repo)
    with pytest.raises(UsageError, match=r"a\.py is (empty|not indexed: empty)"):
        get_chunk(reader, "a.py#x")


@pytest.mark.parametrize(
    ("path", "symbol"), [("#odd.py", "odd"), ("back\\\\slash.py", "slashed"), ("new\\u{a}line.py", "broken")]
)
def test_odd_file_names(library: Index, path: str, symbol: str) -> None:
    for name in (path, f"{path}#{symbol}", f"{path}#L2", f"{path}#L1-L2"):
        answer = get_chunk(library, name, **HTTP)
        assert answer.url == f"{path}#L1-L2" and f"def {symbol}" in answer.text


def test_a_path_with_a_hash_inside_and_spaces_around(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.write("a#b/c#d.py", "def inner():\n    return 1\n")
    repo.write(" spaced .py ", "def spaced():\n    return 1\n")
    repo.commit()
    index(repo)
    for name in ("a#b/c#d.py", "a#b/c#d.py#inner", "a#b/c#d.py#L1-L2\n"):
        assert "def inner" in get_chunk(reader, name).text
    for name in (" spaced .py ", " spaced .py #L2"):
        assert "def spaced" in get_chunk(reader, name).text


def test_carriage_returns_stay_and_lines_are_gits(index: Indexer, reader: Index, repo: Repo) -> None:
    # P-lines: splitlines() counts \r, \f and U+2028 as ends of lines, git does not
    content = "x = 1\r\ny = '\f\u2028'\rz = 2\r\n\r\n\r\ndef last():\r\n    return 1\r\n"
    repo.commit(a_py=content)
    index(repo)
    numbered = repo.git("grep", "-n", "def last").split(":")
    answer = get_chunk(reader, f"a.py#L{numbered[1]}", context=0)
    assert "def last():\r\n    return 1\r" in answer.text
    assert get_chunk(reader, "a.py").text == content.removesuffix("\n")


def test_what_is_not_committed_or_published_is_not_seen(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 'committed'\n", secret_py="x = 1\n")
    index(repo, name="r", rules=Rules(deny=("secret.py",)))
    repo.write("a.py", "def one():\n    return 'edited'\n")
    assert "committed" in get_chunk(reader, "a.py#one").text
    repo.commit()
    assert "committed" in get_chunk(reader, "a.py#one").text
    with pytest.raises(UsageError, match=r"no file secret\.py in r \(main\); search for it"):
        get_chunk(reader, "secret.py")
    index(repo, name="r", rules=Rules(deny=("secret.py",)))
    assert "edited" in get_chunk(reader, "a.py#one").text


def test_a_fence_in_the_code_does_not_end_the_answer(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_md="# A\n\n````\n```\nx\n````\n")
    index(repo)
    text = render.chunk_text(get_chunk(reader, "a.md"))
    assert text.count("`````") == 2


def test_lines_given_out_before_a_newer_publish_say_that_the_file_changed(
    index: Indexer, reader: Index, repo: Repo
) -> None:
    repo.commit(
        a_py="def first():\n    return 'aaa'\n\n\ndef second():\n    return 'bbb'\n", b_py="def b():\n    pass\n"
    )
    index(repo, name="r")
    old = {row.url for row in code_search(reader, "first second", limit=50).result}
    assert "a.py#L1-L6" in old
    before = get_chunk(reader, "a.py#L1-L6")
    assert before.note == ""
    repo.write("a.py", "def first():\n    return 'ccc'\n")
    repo.commit()
    index(repo, name="r")
    after = get_chunk(reader, "a.py#L1-L6")  # beyond its end by now
    assert "'ccc'" in after.text and after.commit != before.commit
    assert re.search(
        rf"a\.py has changed since L1-L6 was given out at commit {before.commit[:7]}: .* now, at", after.note
    )
    assert after.note in render.chunk_text(after)
    assert get_chunk(reader, "b.py#L1-L2").note == ""  # not changed
    assert get_chunk(reader, after.url).note == ""  # given out just now


def test_lines_of_no_chunk_say_so_without_knowing_who_gave_them(library: Index) -> None:
    note = "no chunk is just L8-L11: if a row of an earlier commit said so, the file has changed since"
    assert get_chunk(library, "src/retry.py#L8-L11", **HTTP).note == note
    assert get_chunk(library, "src/retry.py#L8", **HTTP).note == ""
    assert get_chunk(library, "src/retry.py#L14-L15", **HTTP).note == ""
