"""code_search on real repositories: what it finds, what the filters leave, how it pages, what it says of nothing."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest

from flows.errors import GitstrataError, UsageError
from flows.select import Rules
from mcp_tools import render
from mcp_tools.code_search import MAX_LIMIT, code_search
from mcp_tools.cursor import Cursor
from mcp_tools.index import Index
from mcp_tools.rank import FILE_CAP
from mcp_tools.results import Row, SearchResult
from tests.conftest import Indexer
from tests.repos import Repo

SECONDS = "parse_retry_after: return the seconds that a Retry-After header asks to wait"
EVERYTHING = "the header of a request, its retry, a queue and an event"


def paths(answer: SearchResult) -> set[str]:
    return {row.url.rpartition("#")[0] for row in answer.result}


def lines(row: Row) -> tuple[int, int]:
    start, _, end = row.url.rpartition("#L")[2].partition("-L")
    return int(start), int(end)


def all_rows(index: Index, query: str, limit: int, **filters: str) -> list[Row]:
    rows: list[Row] = []
    cursor = ""
    while True:
        answer = code_search(index, query, limit=limit, cursor=cursor, **filters)  # type: ignore[arg-type]
        assert len(answer.result) <= limit
        rows += answer.result
        cursor = answer.next_cursor
        if not cursor:
            return rows


# --- finding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "query", "filters"),
    [
        ("identifier", "parse_retry_after", {"repo": "acme/http"}),
        ("sentence", "how long to wait before a request is sent again", {"repo": "acme/http"}),
        ("across_repositories", "retry policy", {"limit": 5}),
        ("one_language", "retry header", {"languages": ["go"]}),
        ("nothing", "anything", {"repo": "acme/pictures"}),
    ],
)
def test_answers_are_as_before(
    library: Index, golden: Callable[[str, str], None], name: str, query: str, filters: dict[str, object]
) -> None:
    golden(name, render.search_text(code_search(library, query, **filters)))  # type: ignore[arg-type]


def test_a_row_says_what_where_and_how_good(library: Index) -> None:
    row = code_search(library, SECONDS, repo="acme/http").result[0]
    assert row.model_dump() == {
        "source_id": "src/retry.py#RetryPolicy.parse_retry_after",
        "source": "repo_code",
        "score": row.score,
        "snippet": "def parse_retry_after(self, header: str) -> float",
        "url": "src/retry.py#L10-L12",
        "repo": "acme/http",
        "level": "method",
        "language": "python",
    }
    assert 0 < row.score < 1


@pytest.mark.parametrize("spelling", ["parse_retry_after", "parseRetryAfter", "ParseRetryAfter", "parse retry after"])
def test_an_identifier_is_found_in_every_convention(library: Index, spelling: str) -> None:
    # P117: a known identifier was not found, or was lost inside a question
    for query in (spelling, f"where is {spelling} defined?"):
        found = paths(code_search(library, query, repo="acme/http", limit=5))
        assert {"src/retry.py", "src/client.ts", "pkg/retry.go"} <= found


def test_words_of_prose_find_its_section(library: Index) -> None:
    assert "docs/guide.md" in paths(code_search(library, "corporate proxy configured", limit=10))


# --- rows ----------------------------------------------------------------------------------------------------------


def test_rows_overlap_nowhere_and_a_file_has_few(library: Index) -> None:
    rows = all_rows(library, EVERYTHING, 50)
    files: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in rows:
        files.setdefault((row.repo, row.url.rpartition("#")[0]), []).append(lines(row))
    assert max(map(len, files.values())) <= FILE_CAP
    for places in files.values():
        for (start, end), (other_start, other_end) in itertools.combinations(places, 2):
            assert end < other_start or other_end < start


def test_copies_in_files_repositories_and_branches_are_one_row(library: Index) -> None:
    def places(repo: str) -> list[str]:
        rows = code_search(library, SECONDS, repo=repo, limit=50).result
        return [row.repo for row in rows if row.source_id.endswith("retry.py#RetryPolicy.parse_retry_after")]

    assert len(places("")) == 1
    assert places("acme/http") == ["acme/http"]  # but each is found where it is asked for
    assert places("acme/copy") == ["acme/copy"]


def test_snippets_are_one_line_of_200_characters(index: Indexer, reader: Index, repo: Repo) -> None:
    arguments = ", ".join(f"argument_number_{i}: int" for i in range(100))
    repo.commit(
        wide_py=f"def wide({arguments}) -> None:\n    pass\n", notes_txt="\n\n  \nwide\tnotes\n" + "wide " * 300
    )
    index(repo)
    for row in code_search(reader, "wide").result:
        assert 0 < len(row.snippet) <= 200 and "\n" not in row.snippet and "\t" not in row.snippet


def test_an_answer_is_capped_and_its_cursor_brings_the_rest(index: Indexer, reader: Index, repo: Repo) -> None:
    # P109: an answer over the client's limit was lost as a whole
    folder = "/".join("d" * 120 for _ in range(8))
    for i in range(40):
        repo.write(f"{folder}/{i}.py", f"def far_{i}(away):\n    return away + {i}\n")
    repo.commit()
    index(repo, name="r")
    answer = code_search(reader, "far away", limit=50)
    text = render.search_text(answer)
    assert len(text) <= render.MAX_ANSWER and answer.next_cursor in text
    assert 0 < len(answer.result) < 40
    rows = all_rows(reader, "far away", 50)
    assert len({row.source_id for row in rows}) == len(rows) == 40


# --- filters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["src"], {"src/retry.py", "src/client.ts"}),  # P63: not src-old
        (["src/"], {"src/retry.py", "src/client.ts"}),
        (["./src"], {"src/retry.py", "src/client.ts"}),
        (["/src"], {"src/retry.py", "src/client.ts"}),
        (["src/**"], {"src/retry.py", "src/client.ts"}),
        (["src/*"], {"src/retry.py", "src/client.ts"}),
        (["src-old"], {"src-old/retry.py"}),
        (["src*"], {"src/retry.py", "src/client.ts", "src-old/retry.py"}),
        (["src/retry.py"], {"src/retry.py"}),
        (["retry.py"], set()),  # a plain name begins at the root
        (["*.go", "docs"], {"pkg/retry.go", "docs/guide.md"}),
        (["**/retry.*"], {"src/retry.py", "src-old/retry.py", "pkg/retry.go"}),
        (["*.py", "!tests", "!src*"], {"windows.py", "#odd.py", "back\\\\slash.py", "new\\u{a}line.py"}),
        (["#odd.py"], {"#odd.py"}),
        (["#*.py"], {"#odd.py"}),  # no comment, as it would be in .gitignore
        (["back\\\\slash.py"], {"back\\\\slash.py"}),  # as the row shows it
        (["new\\u{a}line.py"], {"new\\u{a}line.py"}),
        (["[a-c]ack*"], {"back\\\\slash.py"}),
        (["SRC"], set()),
        (["!."], set()),
        (["src", "."], {"src/retry.py", "src/client.ts"}),  # and all others, see the test
    ],
)
def test_paths(library: Index, given: list[str], expected: set[str]) -> None:
    found = paths(code_search(library, EVERYTHING, repo="acme/http", paths=given, limit=50))
    assert found == expected if "." not in given else found > expected


def test_empty_filters_are_not_set(library: Index) -> None:
    everything = code_search(library, EVERYTHING, limit=50)
    blank = code_search(library, EVERYTHING, limit=50, repo="", branch="", languages=[""], paths=[""], level="")
    assert blank.result == everything.result
    assert code_search(library, EVERYTHING, limit=50, paths=["**"], level="any").result == everything.result


@pytest.mark.parametrize("path", ["../../etc", "src/../..", "!../x"])
def test_paths_do_not_leave_the_repository(library: Index, path: str) -> None:
    with pytest.raises(UsageError, match=r"leaves the repository.*from its root"):  # P115
        code_search(library, "passwd", paths=[path])
    assert paths(code_search(library, "passwd", paths=["/etc/passwd"])) == set()


@pytest.mark.parametrize("path", ["[z-a]*", "***", "a" * 5000 + "*", "(?=x)*", "{*", "[", "\0*", "\ud800*"])
def test_odd_globs_give_rows_or_one_sentence(library: Index, path: str) -> None:
    try:
        answer = code_search(library, "retry", paths=[path])
    except GitstrataError as error:
        assert "\n" not in str(error)
    else:
        assert answer.result or answer.note


def test_languages_levels_and_branches_narrow(library: Index) -> None:
    for language in ("python", "go", "markdown", " Python "):
        rows = code_search(library, EVERYTHING, languages=[language], limit=50).result
        assert {row.language for row in rows} == {language.strip().lower()}
    for level in ("file", "class", "method", "block"):
        rows = code_search(library, EVERYTHING, level=level, limit=50).result
        assert {row.level for row in rows} == {level}
    assert "src/hedge.py" not in paths(code_search(library, "hedge requests", repo="acme/http"))
    answer = code_search(library, "hedge requests", repo="acme/http", branch="feature")
    assert "src/hedge.py" in paths(answer) and "(feature)" in answer.freshness


def test_one_file_in_many_is_not_crowded_out(library: Index) -> None:
    # a filter after ranking finds nothing when the wanted file is not among the candidates
    answer = code_search(library, "something else entirely", repo="acme/many", paths=["part31"], limit=10)
    assert paths(answer) == {"part31/step.py"}


# --- pages ---------------------------------------------------------------------------------------------------------


def test_pages_are_complete_stable_and_without_repeats(library: Index) -> None:
    # P111
    for query in (EVERYTHING, "parse_retry_after"):
        whole = code_search(library, query, limit=50)
        assert code_search(library, query, limit=50) == whole
        for limit in (1, 7, 50):
            rows = all_rows(library, query, limit)
            assert len({(row.repo, row.source_id) for row in rows}) == len(rows) > 40
            assert rows[:50] == whole.result
            assert [row.score for row in rows] == sorted((row.score for row in rows), reverse=True)


def test_a_cursor_belongs_to_its_query_and_filters(library: Index) -> None:
    cursor = code_search(library, "retry", limit=1).next_cursor
    assert code_search(library, "retry", limit=3, cursor=cursor).result  # another limit is no other query
    for other in (
        {"query": "queue"},
        {"repo": "acme/http"},
        {"languages": ["go"]},
        {"paths": ["src"]},
        {"level": "file"},
    ):
        with pytest.raises(UsageError, match="another query or other filters"):
            code_search(library, **({"query": "retry", "limit": 1, "cursor": cursor} | other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cursor",
    ["x", "é", "WzFd", "\0", "[" * 100_000, Cursor(-5, "", "").encode(), Cursor(True, "", "").encode(), "\ud800"],
)
def test_a_foreign_cursor_is_refused(library: Index, cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor is not one of ours"):
        code_search(library, "retry", cursor=cursor)


def test_beyond_the_last_page_is_a_sentence(library: Index) -> None:
    cursor = Cursor.decode(code_search(library, "retry", limit=1).next_cursor)
    answer = code_search(library, "retry", cursor=Cursor(10_000, cursor.request, cursor.state).encode())
    assert (answer.result, answer.next_cursor) == ([], "") and "no more rows" in answer.note


def test_an_index_that_moved_between_pages_is_noted(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n", b_py="def two():\n    return 2\n")
    index(repo, name="r")
    cursor = code_search(reader, "return", limit=1).next_cursor
    assert code_search(reader, "return", limit=1, cursor=cursor).note == ""
    repo.commit(c_py="def three():\n    return 3\n")
    index(repo, name="r")
    assert "the index moved" in code_search(reader, "return", limit=1, cursor=cursor).note


# --- nothing -------------------------------------------------------------------------------------------------------


def test_an_empty_index_says_how_to_fill_it(reader: Index) -> None:
    answer = code_search(reader, "anything")
    assert answer.result == [] and "gitstrata index" in answer.note


def test_kinds_of_nothing_are_told_apart(library: Index) -> None:
    # P112: an empty result looked like a failure, and the agent left for grep
    filtered = code_search(library, "retry", repo="acme/http", paths=["nowhere"]).note
    skipped = code_search(library, "retry", repo="acme/pictures").note
    excluded = code_search(library, "retry", repo="acme/pictures", paths=["*"]).note
    bare = code_search(library, "retry", repo="acme/bare").note
    assert "The filters leave no file of acme/http (main)" in filtered
    assert "every file was skipped; index_status lists the reasons" in skipped
    assert "the commit has no file" in bare
    assert "is kept out of the index: " in excluded and "gitstrata explain" in excluded
    assert len({filtered, skipped, excluded, bare}) == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"repo": "acme/htp"}, r"unknown repo 'acme/htp': did you mean 'acme/http'\? Indexed: acme/bare, acme/copy"),
        ({"repo": "../x"}, r"unknown repo '\.\./x': .*Indexed: acme/bare"),
        ({"repo": "acme/http\0"}, "argument cannot be looked up: .*NUL"),
        ({"repo": "\ud800"}, "argument cannot be looked up: .*surrogate"),
        ({"branch": "featur"}, r"unknown branch 'featur': did you mean 'feature'\? Indexed: feature, main"),
        ({"repo": "acme/copy", "branch": "feature"}, "unknown branch 'feature' of acme/copy: Indexed: main"),
        ({"languages": ["pyton"]}, r"unknown language 'pyton'; did you mean 'python'\?"),
        ({"level": "methd"}, "unknown level 'methd': use any, file, class, method, block"),
        ({"project": "pay"}, "unknown project 'pay'"),
        ({"limit": 0}, "limit is 0: use 1 to 50"),
        ({"limit": MAX_LIMIT + 1}, "limit is 51: use 1 to 50"),
        ({"query": " \t\n"}, "query is empty"),
        ({"query": "\0"}, "query is empty"),
    ],
)
def test_a_wrong_name_lists_the_right_ones(library: Index, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        code_search(library, **({"query": "retry"} | wrong))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_repository_without_a_published_commit_is_no_unknown_one(index: Indexer, reader: Index, repo: Repo) -> None:
    # P118: a failure stayed silent
    repo.commit(a_py="def one():\n    return 1\n")
    index(repo, name="good")
    index.embedder.spoil = lambda texts, vectors: vectors[:, :1]
    repo.commit(a_py="def two():\n    return 1\n")
    for name in ("bad", "good"):
        with pytest.raises(GitstrataError):
            index(repo, name=name)
    index.embedder.spoil = None
    said = "No commit of bad is published yet: the last run failed, index_status says why."
    assert code_search(reader, "one", repo="bad").note == said
    answer = code_search(reader, "one")
    assert answer.result and "last run failed" in answer.freshness
    index(repo, name="good")
    assert "last run failed" not in code_search(reader, "one").freshness


def test_a_repository_without_a_default_branch_asks_which(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n")
    index(repo, "main", name="r")
    assert code_search(reader, "one", repo="r").result  # the first branch is the default until another one is
    with index.database.connect() as connection:
        connection.execute("update branch set is_default = false")
    with pytest.raises(UsageError, match="no default branch of r is indexed: say which in branch"):
        code_search(reader, "one", repo="r")
    assert code_search(reader, "one", repo="r", branch="main").result


def test_a_denied_path_is_never_named(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n", secret_py="def launch_codes():\n    return 1\n")
    index(repo, name="r", rules=Rules(deny=("secret.py",)))
    assert paths(code_search(reader, "launch_codes")) == {"a.py"}


# --- odd queries ---------------------------------------------------------------------------------------------------

ODD = [
    "x",
    "retry " * 2_000,
    "a" * 5_000,
    "?!…—()[]{}",
    "'",
    '"retry',
    "foo & | ! <-> bar:*",
    "' & | ! <-> ':*",
    "retry:*",
    "!retry",
    "\\",
    "\\\\ \\' \\x",
    "retry\0after",
    "'; drop table file; --",
    "%s %(branches)s %% {0}",
    "$1 $$ $tag$",
    "😀 retry 👩‍👩‍👧",
    "重试 请求 再試行",
    "\ud800 retry \udfff",
    "\ud800",
    "e\u0301" * 50,
    "\u202eretry",
    "-retry --help",
    "retry\r\n\tafter",
    " ".join(f"word{i}" for i in range(500)),
]


@pytest.mark.parametrize("query", ODD, ids=range(len(ODD)))
def test_odd_queries_give_rows_or_one_sentence(library: Index, query: str) -> None:
    answer = code_search(library, query)
    assert answer.result or answer.note
    render.search_text(answer).encode()


def test_the_index_survives_odd_queries(library: Index) -> None:
    with library.snapshot() as connection:
        row = connection.execute("select count(*) from file").fetchone()
    assert row is not None and row[0] > 50


# --- while others write --------------------------------------------------------------------------------------------


def test_two_reads_during_a_publish_see_one_commit(index: Indexer, reader: Index, repo: Repo) -> None:
    states = []
    for state in ("alpha", "omega"):
        repo.commit(a_py=f"def first_{state}():\n    return 1\n", b_py=f"def second_{state}():\n    return 2\n")
        states.append(repo.git("rev-parse", "HEAD"))
        index(repo, name="r")
    stop = threading.Event()
    torn: list[object] = []
    seen: set[str] = set()

    def read() -> None:
        while not stop.is_set():
            answer = code_search(reader, "first second", level="method")
            found = {row.snippet.rpartition("_")[2] for row in answer.result}
            seen.update(found)
            if len(answer.result) != 2 or len(found) != 1:
                torn.append(answer)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 4
    for state in itertools.cycle(states):
        repo.git("checkout", "-q", "-B", "main", state)
        index(repo, name="r")
        if time.monotonic() > end:
            break
    stop.set()
    for thread in threads:
        thread.join()
    assert not torn
    assert seen == {"alpha()", "omega()"}
