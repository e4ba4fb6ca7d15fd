"""search_code: exact lines, exact totals, definitions first, and what odd patterns do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flows import settings
from flows.errors import UsageError
from flows.store import grep, pieces, sieve
from flows.store.connect import Database
from flows.store.grep import Budget
from flows.store.pieces import TEXT
from flows.store.trigrams import grams
from mcp_tools import found, render, scope
from mcp_tools import search_code as tool
from mcp_tools.index import Index
from mcp_tools.matching import Pattern
from mcp_tools.results import CodeResult, CodeRow
from mcp_tools.search_code import MAX_LIMIT, search_code
from tests.conftest import Indexer
from tests.hostile import make_hostile
from tests.repos import Repo
from tests.stubs import StubEmbedder


def totals(answer: CodeResult) -> tuple[int, int, int, bool]:
    return answer.totals.matches, answer.totals.files, answer.totals.chunks, answer.totals.exact


def ids(answer: CodeResult) -> list[str]:
    return [row.source_id for row in answer.result]


def all_rows(index: Index, pattern: str, limit: int = MAX_LIMIT, **arguments: object) -> list[CodeRow]:
    """Walk to the last page."""
    rows: list[CodeRow] = []
    cursor = ""
    while True:
        answer = search_code(index, pattern, limit=limit, cursor=cursor, **arguments)  # type: ignore[arg-type]
        rows += answer.result
        cursor = answer.next_cursor
        if not cursor:
            return rows
        assert answer.result


# --- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pattern", "arguments"),
    [
        ("exact_identifier", "parse_retry_after", {"repo": "acme/http"}),
        ("exact_expression", r"def \w+\(self", {}),
        ("exact_name", "RetryPolicy.wait", {"repo": "acme/http"}),
        ("exact_files", "", {"paths": ["src", "*.png"], "repo": "acme/http"}),
        ("exact_nothing", "no such text", {"repo": "acme/http"}),
    ],
)
def test_answers_are_as_before(
    library: Index, golden: Callable[[str, str], None], name: str, pattern: str, arguments: dict[str, object]
) -> None:
    golden(name, render.code_text(search_code(library, pattern, **arguments)))  # type: ignore[arg-type]


def test_a_row_says_what_where_and_which_lines(library: Index) -> None:
    answer = search_code(library, "parse_retry_after", repo="acme/http")
    assert answer.result[0].model_dump() == {
        "source_id": "src/retry.py#RetryPolicy.parse_retry_after",
        "source": "repo_code",
        "score": 1.0,
        "snippet": "def parse_retry_after(self, header: str) -> float",
        "url": "src/retry.py#L10-L12",
        "repo": "acme/http",
        "level": "method",
        "language": "python",
        "lines": [{"line": 10, "text": "def parse_retry_after(self, header: str) -> float:"}],
    }
    assert totals(answer) == (3, 2, 2, True)


def test_definitions_come_first_then_code_before_tests_before_documents(
    index: Indexer, reader: Index, repo: Repo
) -> None:
    for path, text in {
        "a.md": "# wait\n\nCall wait, then wait again.\nwait\nwait\n",
        "tests/test_wait.py": "def test_it():\n    wait()\n    wait()\n    wait()\n    assert wait\n",
        "z.py": "def use():\n    wait()\n    wait()\n\n\nwait()\n",
        "deep/policy.py": "class Policy:\n    def wait(self):\n        return 1\n",
        "y.py": "wait()\nwait()\nwait()\n",
    }.items():
        repo.write(path, text)
    repo.commit()
    index(repo)
    answer = search_code(reader, "wait")
    assert [(row.source_id, row.score) for row in answer.result] == [
        ("deep/policy.py#Policy.wait", 1.0),
        ("z.py#use", 2.0),
        ("y.py#file", 1.5),  # lines outside every class and method count half
        ("z.py#file", 0.5),
        ("tests/test_wait.py#test_it", 4.0),
        ("a.md#wait", 4.0),
    ]
    assert totals(answer) == (15, 5, 4, True)
    for pattern in (r"def wait", r"def \w+\(self", r"(?i)\bWAIT\b", r"wa?it"):
        assert ids(search_code(reader, pattern))[0] == "deep/policy.py#Policy.wait", pattern


def test_a_bare_word_does_not_drown_in_documents(index: Indexer, reader: Index, repo: Repo) -> None:
    # the seed's fault: documents filled the list, then were cut from it
    for n in range(60):
        repo.write(f"docs/page{n:02}.md", "token token token\n" * 5)
    repo.commit(src__auth_py="def token():\n    return 1\n")
    index(repo)
    answer = search_code(reader, "token", limit=5)
    assert answer.result[0].source_id == "src/auth.py#token"
    assert totals(answer)[:2] == (301, 61)
    assert totals(search_code(reader, "token", languages=["python"])) == (1, 1, 1, True)


def test_a_full_name_finds_its_definition_though_no_line_has_it(library: Index) -> None:
    for name in ("RetryPolicy.wait", "RetryPolicy::wait", "RetryPolicy#wait"):
        answer = search_code(library, name, repo="acme/http")
        assert ids(answer) == ["src/retry.py#RetryPolicy.wait"]
        assert answer.result[0].lines[0].text == "def wait(self, attempt: int) -> float:"
        assert totals(answer) == (0, 0, 0, True) and "no line has this text" in answer.note
    assert not search_code(library, "RetryPolicy.wait", paths=["src-old"]).result


def test_paths_alone_list_files_with_the_reason_of_what_is_not_indexed(library: Index) -> None:
    answer = search_code(library, "", paths=["*.py", "*.png"], repo="acme/http")
    by_path = {row.source_id.rpartition("#")[0]: row for row in answer.result}
    assert set(by_path) == {
        "#odd.py", "back\\\\slash.py", "logo.png", "new\\u{a}line.py", "src-old/retry.py", "src/retry.py",
        "tests/test_retry.py", "windows.py",
    }  # fmt: skip
    assert by_path["logo.png"].snippet == "not indexed: binary" and by_path["src/retry.py"].url == "src/retry.py#L1-L19"
    assert totals(answer) == (0, 8, 0, True)
    walked = all_rows(library, "", 3, paths=["*.py", "*.png"], repo="acme/http")
    assert [row.source_id for row in walked] == ids(answer)


def test_what_was_not_searched_is_said(library: Index) -> None:
    assert "not searched: 1 file (binary 1)" in search_code(library, "parse_retry_after", repo="acme/http").note
    assert not search_code(library, "parse_retry_after", repo="acme/http", paths=["src"]).note
    with library.snapshot() as connection:
        where = scope.resolve(connection).filters
        assert grep.left_out(connection, where) == grep.left_out(
            connection, replace(where, include=("",), likely=("%",))
        )


def test_kinds_of_nothing(library: Index) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"repo": "acme/http"}, "No match in acme/http"),
        ({"repo": "acme/http", "paths": ["nowhere"]}, "The filters leave no file"),
        ({"repo": "acme/pictures"}, "every file was skipped"),
        ({"repo": "acme/bare"}, "no file that may be indexed"),
    ]
    for arguments, note in cases:
        answer = search_code(library, "xyzzy", **arguments)  # type: ignore[arg-type]
        assert note in answer.note and not answer.result and totals(answer) == (0, 0, 0, True)


# --- lines ---------------------------------------------------------------------------------------------------------

LINES = {
    "unix.txt": b"alpha\n\nbeta alpha\n  gamma\n",
    "windows.txt": b"alpha\r\n\r\nbeta\r\n",
    "unended.txt": b"first\nalpha",
    "only_cr.txt": b"alpha\rbeta\r",
    "empty.txt": b"",
    "newlines.txt": b"\n\n\n",
    "nul.txt": b"al\0pha\n" + b"text without an end\n" * 5,
    "words.txt": "Größe ſtaſK naïve\n\u05e9\u05dc\u05d5\u05dd עולם\n日本語テキスト\nİstanbul K\n".encode(),
    "code.c": b"a->b();\nif (x != 0) { y++; }\n--flag\n/* */\n",
}


@pytest.fixture(scope="module")
def texts(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Path]]:
    """An index of LINES, and a folder with the same files."""
    folder = tmp_path_factory.mktemp("lines")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create database lines template template_gitstrata")
    conninfo = make_conninfo(server, dbname="lines")
    config = settings.load({"GITSTRATA_HOME": str(folder / "home"), "GITSTRATA_DSN": conninfo})
    repo = Repo(folder / "repo")
    stored = folder / "stored"
    stored.mkdir()
    for path, content in LINES.items():
        repo.write(path, content)
        (stored / path).write_bytes(content.replace(b"\0", b""))
    repo.commit()
    Indexer(Database(conninfo), config, StubEmbedder())(repo, name="lines")
    with Index(config, embedder=StubEmbedder()) as opened:
        yield opened, stored
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database lines with (force)"))


def git_grep(folder: Path, *arguments: str) -> tuple[int, int]:
    """Return matching lines and files."""
    done = subprocess.run(
        ["git", "grep", "--no-index", "--text", "-c", *arguments],
        cwd=folder,
        capture_output=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert done.returncode <= 1, done.stderr
    counts = [int(line.rsplit(":", 1)[1]) for line in done.stdout.decode().splitlines()]
    return sum(counts), len(counts)


@pytest.mark.parametrize(
    "pattern",
    ["alpha", "^alpha", "alpha$", "^alpha$", "^$", "a*", "x?", ".*", "^", "$", r"\s*$", r"^\s", "a|e", "[^a]",
     r"\r", "beta.*alpha", r"a\b", "^beta", "(alpha|gamma)", ".", "Größe", "עולם", "テキ", "->", r"\+\+", "--flag",
     "!=", "/\\*", "if \\(", "^--", "pha$", "naïve", "stask"],
)  # fmt: skip
@pytest.mark.parametrize("ignore_case", [False, True])
def test_lines_are_those_of_git_grep(texts: tuple[Index, Path], pattern: str, ignore_case: bool) -> None:
    index, stored = texts
    expected = git_grep(stored, *(["-i"] if ignore_case else []), "-P", "-e", pattern)
    assert totals(search_code(index, pattern, ignore_case=ignore_case))[:2] == expected


@pytest.mark.parametrize(
    "text", ["a->b();", "--flag", "-", "/*", "$", "^", ".*", "(", "\\", "テ", "x != 0", " ", "ſtaſK", "'"]
)
def test_literals_are_those_of_git_grep(texts: tuple[Index, Path], text: str) -> None:
    index, stored = texts
    answer = search_code(index, text, literal=True)
    assert totals(answer)[:2] == git_grep(stored, "-F", "-e", text) and answer.totals.exact


def test_case_is_folded_beyond_ascii(texts: tuple[Index, Path]) -> None:
    index, _ = texts
    for pattern in ("STASK", "stask", "GRÖSSE|GRÖßE", "größe", "k"):
        assert "words.txt#module" in ids(search_code(index, pattern, ignore_case=True)), pattern
    assert not search_code(index, "stask").result


def test_multiline_matches_count_where_they_begin(texts: tuple[Index, Path]) -> None:
    index, _ = texts
    answer = search_code(index, r"alpha\n\nbeta", multiline=True)
    assert totals(answer)[:2] == (1, 1) and answer.result[0].lines[0].model_dump() == {"line": 1, "text": "alpha"}
    assert totals(search_code(index, "x != 0) { y++; }\n--flag", literal=True, multiline=True))[:2] == (1, 1)
    assert totals(search_code(index, r"alpha\n\nbeta"))[:2] == (0, 0)  # a line has no line end


def test_a_text_in_many_pieces_is_searched_like_one(
    index: Indexer, reader: Index, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "SIZE", 64)
    functions = "".join(f"def f{n}():\n    return needle({n})\n\n" for n in range(40))
    repo.commit(
        a_py=f"{functions}last = 'Größe'\nneedle",
        b_py="needle = 'größe'\n",
        c_py=f"{functions.replace('needle', 'nothing')}class Deep:\n    def below(self):\n        return 1\n",
    )
    index(repo)
    with index.database.connect() as connection:
        assert connection.execute(
            "select max(n) > 20 from (select count(*) n from piece group by blob_id) c"
        ).fetchone() == (True,)
    for pattern, arguments, expected in [
        ("needle", {}, (42, 2)),
        (r"needle\(1\d\)$", {}, (10, 1)),
        ("^$", {}, (80, 2)),
        (".*", {}, (246, 3)),
        (r"\Adef f", {}, (2, 2)),
        (r"\Aneedle", {}, (1, 1)),
        (r"^needle\z", {}, (1, 1)),
        (r"(?-m)^(def|needle)", {}, (3, 3)),
        (r"needle\(3\)\n\ndef f4\(", {"multiline": True}, (1, 1)),
        (r"f3\((.*\n)*.*Größe", {"multiline": True}, (1, 1)),
        ("Größe", {}, (1, 1)),
        ("GRÖSSE", {"ignore_case": True}, (0, 0)),
        ("GRÖßE", {"ignore_case": True}, (2, 2)),
        ("gr(ö|o)ße", {}, (1, 1)),
    ]:
        answer = search_code(reader, pattern, **arguments)  # type: ignore[arg-type]
        assert (totals(answer)[:2], answer.totals.exact) == (expected, True), pattern
    lines = [line.model_dump() for row in all_rows(reader, r"needle\((0|30)\)|^needle$") for line in row.lines]
    assert sorted(lines, key=lambda line: line["line"]) == [
        {"line": 2, "text": "return needle(0)"},
        {"line": 92, "text": "return needle(30)"},
        {"line": 122, "text": "needle"},
    ]
    assert [line.model_dump() for line in search_code(reader, "Deep.below").result[0].lines] == [
        {"line": 122, "text": "def below(self):"}
    ]


def test_long_lines_are_cut_around_the_match(index: Indexer, reader: Index, repo: Repo) -> None:
    filler = "x = 1; " * 300
    repo.commit(
        long_py=f"def long():\n    {filler}needle = 2; {filler}\n    é{'é' * 700}needle\n    needle{'é' * 700}\n"
    )
    index(repo)
    lines = search_code(reader, "needle").result[0].lines
    assert [line.line for line in lines] == [2, 3, 4]
    assert all("needle" in line.text and len(line.text) <= found.MAX_WIDTH for line in lines)
    assert lines[0].text[0] == lines[0].text[-1] == "…" and lines[2].text.startswith("needle")


# --- odd patterns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(b", "at character 2: missing \\)"),
        ("(a)(b[)]", "at character 4: missing \\)"),
        ("ab)", "unexpected \\)"),
        ("a**", "at character 2: bad repetition operator"),
        ("[z-a]", "at character 2: invalid character class range, 'z-a'"),
        ("x{1001}", "at character 2: invalid repetition size"),
        (r"(a)\1", "at character 4: invalid escape sequence.*back-references"),
        ("(?<=a)b", "at character 1: invalid perl operator.*look-around"),
        ("foo\\", "at character 4: trailing"),
        ("((a{100}){100}){100}", "no regular expression"),
        ("a\0b", "NUL at character 2"),
        ("a\nb", "line end at character 2.*multiline"),
        ("\ud800", "half a surrogate pair at character 1"),
        ("x" * 3_000, "has 3000 characters"),
        ("", "the pattern is empty"),
    ],
)
def test_a_bad_pattern_is_one_sentence(library: Index, pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        search_code(library, pattern)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"(x+x+)+y", r"(.*)*" * 10, r"(\w+\s?)+\($", "|".join(f"word{n}" for n in range(70)), "(a?){30}a{30}",
     r"[ab]*a[ab]{300}", r"-e", "--", "-", r"\x00", r"\n", "(?i)" * 50 + "x", r"\pL", r"\C", "^" * 100, "|||", "(|a)*"],
)  # fmt: skip
def test_a_hard_pattern_is_answered(library: Index, pattern: str) -> None:
    answer = search_code(library, pattern)
    assert answer.totals.exact and answer == search_code(library, pattern)


def test_bad_arguments(library: Index) -> None:
    for arguments, message in [
        ({"limit": 0}, "limit is 0"),
        ({"cursor": "nonsense"}, "not one of ours"),
        ({"repo": "acme/htp"}, "did you mean 'acme/http'"),
        ({"paths": ["../x"]}, "leaves the repository"),
        ({"languages": ["klingon"]}, "klingon"),
    ]:
        with pytest.raises(UsageError, match=message):
            search_code(library, "x", **arguments)  # type: ignore[arg-type]


# --- pages and budgets ---------------------------------------------------------------------------------------------


def test_everything_of_a_hostile_repository_is_a_small_answer_with_exact_totals(
    index: Indexer, reader: Index, tmp_path: Path
) -> None:
    # P109, P110: the answer to a search for everything did not fit into any context
    index(make_hostile(tmp_path / "hostile"), name="hostile")
    with index.database.connect() as connection:
        bodies = [row[0] for row in connection.execute(
            f"select {TEXT} from file f join blob b using (oid) where f.cut_id is not null")]  # fmt: skip
    lines = [line for body in bodies for line in body.removesuffix("\n").split("\n") if body]
    for pattern in (".*", "e"):
        answer = search_code(reader, pattern)
        expected = [line for line in lines if pattern == ".*" or "e" in line]
        assert answer.totals.exact and answer.totals.matches == len(expected)
        assert len(render.code_text(answer)) < 5_000 * 3 and len(answer.model_dump_json()) < 5_000 * 4
        rows = all_rows(reader, pattern)
        assert len({(row.repo, row.source_id) for row in rows}) == len(rows)
        assert sum(row.level in ("class", "method") for row in rows) == answer.totals.chunks
        assert {row.source_id.rpartition("#")[0] for row in rows} and len(rows) >= answer.totals.files
        assert sum(row.score * (1 if row.level in ("class", "method") else 2) for row in rows) == answer.totals.matches
        assert [row.source_id for row in all_rows(reader, pattern, 7)] == [row.source_id for row in rows]


def test_a_cursor_says_when_the_index_moved(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(**{f"f{n}_py": f"def f{n}():\n    needle()\n" for n in range(5)})
    index(repo)
    first = search_code(reader, "needle", limit=2)
    assert not search_code(reader, "needle", limit=2, cursor=first.next_cursor).note
    repo.commit(g_py="needle()\n")
    index(repo)
    assert "the index moved" in search_code(reader, "needle", limit=2, cursor=first.next_cursor).note
    for other in ({"literal": True}, {"ignore_case": True}, {"paths": ["*.py"]}):
        with pytest.raises(UsageError, match="another query or other filters"):
            search_code(reader, "needle", cursor=first.next_cursor, **other)  # type: ignore[arg-type]


def test_beyond_the_budget_totals_are_lower_bounds_and_always_the_same(
    index: Indexer, reader: Index, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        repo.write(f"src/f{n:02}.py", f"def f{n}():\n    needle()\n" * 2)
        repo.write(f"docs/d{n:02}.md", "needle\n" * 40)
    repo.commit(z_py="class needle:\n    pass\n")
    index(repo)
    assert totals(search_code(reader, "needle")) == (1261, 61, 31, True)
    monkeypatch.setattr(tool, "BUDGET", Budget(whole=1 << 20, files=5, bytes=1 << 20, some=5))
    answer = search_code(reader, "needle")
    assert ids(answer)[0] == "z.py#needle"  # what defines the name is looked at first, then code
    assert all(row.language == "python" for row in answer.result)
    assert totals(answer) == (9, 5, 5, False) and "of 61 files that may match, the first 5" in answer.note
    assert answer == search_code(reader, "needle")
    monkeypatch.setattr(tool, "BUDGET", Budget(whole=300, files=1_000, bytes=200, some=1_000))
    assert not search_code(reader, "n.*e").totals.exact
    monkeypatch.setattr(tool, "ENOUGH", 3)
    assert totals(search_code(reader, "needle"))[0] == 5  # what cannot be exact ends early
    monkeypatch.setattr(tool, "BUDGET", Budget(whole=300, files=1_000, bytes=1 << 20, some=2))
    assert totals(search_code(reader, "needle"))[1] == 2
    monkeypatch.setattr(tool, "BUDGET", Budget(whole=1 << 20, files=1_000, bytes=1 << 20, some=1_000))
    monkeypatch.setattr(tool, "MAX_LINES", 20)
    assert not search_code(reader, "needle").totals.exact


def test_the_database_answers_from_the_index(library: Index) -> None:
    need, given = Pattern("(parse|read)_retry_after", ignore_case=True).need, {}
    passes = sieve.condition(need)
    assert passes
    query = sql.SQL("explain select blob_id from piece where {} and (sieve is null or {})").format(
        grep._needs(need, given), passes
    )
    with library.snapshot() as connection:
        connection.execute("set local enable_seqscan = off")
        plan = [row[0].strip() for row in connection.execute(query, given)]
    assert any(line.startswith("->  Bitmap Index Scan on piece_trigram") for line in plan)
    assert "get_bit" in next(line for line in plan if line.startswith("Filter:")), plan
    assert not any("show_trgm" in line for line in plan if line.startswith("Filter:"))  # it would read every text


def test_a_name_is_not_looked_for_where_its_trigrams_are(index: Indexer, reader: Index, repo: Repo) -> None:
    for n in range(5):
        repo.write(f"decoy{n}.py", f"alpha_b, _beta_g, _gamma = {n}\n")
    repo.commit(a_py="the_alpha_beta_gamma_name = 1\n", b_py="ALPHA_BETA_GAMMA = 2\n")
    index(repo)
    cases: list[tuple[str, dict[str, bool], int]] = [  # and how many files the answer has
        ("alpha_beta_gamma", {"literal": True}, 1),
        ("alpha_beta_gamma", {"literal": True, "ignore_case": True}, 2),
        (r"\b(alpha|omega)_beta_gamma\b", {}, 0),
        (r"_alpha_(beta|iota)_gamma", {}, 1),
    ]

    def searched(pattern: str, options: dict[str, bool]) -> int:
        with reader.snapshot() as connection:
            return tool._candidates(connection, Pattern(pattern, **options), scope.resolve(connection))[1]

    for pattern, options, expected in cases:
        assert searched(pattern, options) <= 2, pattern
        assert totals(search_code(reader, pattern, **options))[1] == expected, pattern  # type: ignore[arg-type]
    with index.database.connect() as connection:
        connection.execute("update piece set sieve = null")  # as an older schema leaves it
    for pattern, options, expected in cases:
        assert searched(pattern, options) >= 6, pattern
        assert totals(search_code(reader, pattern, **options))[1] == expected, pattern  # type: ignore[arg-type]
    repo.commit(c_py="alpha_beta_gamma = 3\n")
    index(repo)
    assert searched(*cases[0][:2]) == 3
    with index.database.connect() as connection:
        assert connection.execute("select count(*) from piece where sieve is null").fetchone() == (0,)


def test_what_no_sieve_knows_is_looked_up() -> None:
    asked = grep._trigrams(Pattern(r"def \w+_handler_of_requests").need)
    assert {"def", "ef "} <= set(asked) and len(asked) == grep.RAREST + 2
    assert set(grep._trigrams(Pattern("foo bar baz").need)) == grams("foo bar baz")


def test_a_text_is_kept_for_the_rows_or_read_again(library: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("retry", "RetryPolicy.wait", "def wait")
    before = [search_code(library, name) for name in names]
    monkeypatch.setattr(tool, "MAX_KEPT", 0)
    assert [search_code(library, name) for name in names] == before


def test_a_search_that_takes_too_long_is_an_error(library: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "STATEMENT_SECONDS", -1)
    with pytest.raises(UsageError, match="narrow it by repo"):
        search_code(library, "e")
