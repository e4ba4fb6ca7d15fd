"""What a pattern requires of a text: never more than every match has."""

from __future__ import annotations

import re

import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from flows.store.connect import Database
from flows.store.trigrams import EXPRESSION, LONG, NOTHING, Need, fold, grams
from mcp_tools import required
from mcp_tools.matching import Pattern

# A pattern and a string that it was built to match; RE2 decides whether it does.
Pair = tuple[str, str]
CHARACTERS = "abksKS019_->.()[]{}*+?^$|\\ \t\r/\"'ſ\u212aéñИ中\u05d0"


def escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\.+*?()|[]{}^$" else c for c in text)


def optional(pair: Pair, taken: bool) -> Pair:
    return f"(?:{pair[0]})?", pair[1] if taken else ""


def repeated(pair: Pair, sign: str, times: int) -> Pair:
    least = {"*": 0, "+": 1, "{2}": 2, "{2,}": 2, "{0,2}": 0, "*?": 0}[sign]
    most = {"{2}": 2, "{0,2}": 2}.get(sign, 4)
    return f"(?:{pair[0]}){sign}", pair[1] * min(max(times, least), most)


def joined(pairs: list[Pair]) -> Pair:
    return "".join(p for p, _ in pairs), "".join(t for _, t in pairs)


def chosen(pairs: list[Pair], which: int, opening: str) -> Pair:
    return f"{opening}{'|'.join(p for p, _ in pairs)})", pairs[which % len(pairs)][1]


def one_of(members: str, which: int) -> Pair:
    inside = "".join(f"\\{c}" if c in r"\]^-[" else c for c in members)
    return f"[{inside}]", members[which % len(members)]


words = st.text(st.sampled_from(CHARACTERS), min_size=1, max_size=5)
atoms = st.one_of(
    words.map(lambda text: (escaped(text), text)),
    st.sampled_from(["foo_bar", "->next", "if (x)", "Task", "makes", "a.b.c", "::new("]).map(lambda t: (escaped(t), t)),
    st.sampled_from([("^", ""), ("$", ""), (r"\b", ""), (r"\B", ""), ("", ""), ("(?i)", ""), (r"\A", ""), (r"\z", "")]),
    st.sampled_from([(".", "x"), (r"\w", "k"), (r"\d", "7"), (r"\s", " "), (r"\S", "-"), (r"\W", "."), (r"[^a]", "b")]),
    st.sampled_from([(r"\x41", "A"), (r"\x{3c}", "<"), (r"\101", "A"), (r"[[:alpha:]]", "q"), (r"\pL", "é")]),
    st.sampled_from(
        [(r"[a-c]", "b"), (r"[^\s]", "x"), (r"[]x]", "]"), (r"[\d_]", "_"), (r"[(-+]", ")"), (r"\t", "\t")]
    ),
    words.filter(lambda text: "\\" not in text).map(lambda text: (f"\\Q{text}\\E", text)),
    st.builds(one_of, words, st.integers(0, 5)),
)
pairs = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(joined, st.lists(inner, min_size=1, max_size=4)),
        st.builds(
            chosen, st.lists(inner, min_size=1, max_size=4), st.integers(0, 3), st.sampled_from(["(", "(?:", "(?i:"])
        ),
        st.builds(optional, inner, st.booleans()),
        st.builds(repeated, inner, st.sampled_from(["*", "+", "{2}", "{2,}", "{0,2}", "*?"]), st.integers(0, 4)),
    ),
    max_leaves=8,
)
around = st.text(st.sampled_from(CHARACTERS + "xyz\n"), max_size=6)


def words_of(text: str) -> list[str]:
    return "".join(map(fold, text)).split()


def trigrams_of(text: str) -> frozenset[str]:
    """The trigrams that pg_trgm makes of a folded text."""
    padded = (f"  {word} " for word in words_of(text))
    return frozenset(word[i : i + 3] for word in padded for i in range(len(word) - 2))


def longs_of(text: str) -> frozenset[str]:
    """The longer strings that a sieve knows."""
    return frozenset(word[i : i + LONG] for word in words_of(text) for i in range(len(word) - LONG + 1))


def grams_of(text: str) -> frozenset[str]:
    return trigrams_of(text) | longs_of(text)


@settings(max_examples=600, deadline=None)
@given(pairs, around, around, st.booleans())
@example(("^import", "import"), "", "", False)
@example(("(?i)task", "taſK"), "a", "b", False)
@example((r"a{2}\b|\bx", "aa"), "", ".", False)
def test_what_matches_is_never_left_out(pair: Pair, before: str, after: str, ignore_case: bool) -> None:
    pattern, text = pair[0], before + pair[1] + after
    options = re2.Options()
    options.log_errors, options.case_sensitive = False, not ignore_case
    try:
        compiled = re2.compile(f"(?m){pattern}", options)
    except re2.error:
        return
    if compiled.search(text):
        any_case = Pattern(pattern, ignore_case=ignore_case).need if pattern else NOTHING
        assert any_case.met_by(grams_of(text)), (pattern, text)


@settings(max_examples=300, deadline=None)
@given(words, around, around, st.booleans())
def test_a_literal_is_never_left_out(text: str, before: str, after: str, ignore_case: bool) -> None:
    need = Pattern(text, literal=True, ignore_case=ignore_case).need
    assert need.met_by(grams_of(before + text + after))
    if ignore_case:
        assert need.met_by(grams_of(before + text.swapcase() + after))


@settings(max_examples=300, deadline=None)
@given(pairs.filter(lambda pair: not re.search(r"\\[Az]|\n", pair[0])), st.lists(around, max_size=4))
def test_lines_are_those_that_match_by_themselves(pair: Pair, lines: list[str]) -> None:
    pattern = pair[0]
    text = "\n".join([*lines, pair[1], ""])
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return
    if not pattern:
        return
    found = [line for line, *_ in Pattern(pattern).lines(text.encode())]
    assert found == [n for n, line in enumerate(text.split("\n")[:-1], 1) if compiled.search(line)]


def test_the_database_has_the_trigrams_that_we_expect(database: Database) -> None:
    texts = [
        "foo_bar->baz(x)",
        "if a != b:\r\n\treturn\x0bx",
        "Task ſofK \u0130x Ünïcode 中文字 \u05d0\u05d1",
        "",
        " ",
        "a",
        "'\\'%$",
    ]
    query = sql.SQL("select {} from unnest(%(texts)s::text[]) b (body)").format(EXPRESSION)
    with database.connect() as connection:
        rows = connection.execute(query, {"texts": texts}).fetchall()
    assert [frozenset(found) for (found,) in rows] == [trigrams_of(text) for text in texts]


def test_what_some_patterns_require() -> None:
    cases: list[tuple[str, Need]] = [
        ("foo", Need(grams("foo"))),
        ("->next", Need(grams("17next"))),  # punctuation counts
        (".*", NOTHING),
        (r"\d+", NOTHING),
        ("->", NOTHING),
        ("^if ", Need(frozenset({"  i", " if", "if "}))),  # a line's edge and a blank are edges of a word
        ("(?i)MAKE", Need(grams("make"))),
        ("foo.*bar", Need(grams("foo") | grams("bar"))),
        ("foo|x", NOTHING),
        ("caf\u00e9s", Need(grams("cafq303q251s"))),  # beyond ASCII, the bytes
        ("\u0418", Need(grams("q320q230"))),
        ("(?i)caf\u00e9s", Need(grams("caf"))),  # but case is unknown there
        ("ab[cd]ef", required.bounded(required.join(required.literal("ab", any_case=False), required.UNKNOWN))),
    ]
    for pattern, need in cases[:-1]:
        assert Pattern(pattern).need == need, pattern
    either = Pattern("ab[cd]ef").need
    assert either.met_by(grams_of("abcef")) and either.met_by(grams_of("abdef"))
    assert not either.met_by(grams_of("abxef"))
    words = [f"identifier_{n}" for n in range(40)]
    assert required.read("|".join(words), any_case=False).size == 40
    assert (
        required.read("|".join(f"w{n:03}" for n in range(400)), any_case=False) == NOTHING
    )  # too much to ask a database for
