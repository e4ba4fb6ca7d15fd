"""What a question and a place say about each other, besides words and vectors: one named factor a rule.

A factor of 1 changes nothing. All are pure functions of the question and of one row. docs/ranking.md has the figure of
each rule, and how the constants were chosen.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import Stemmer

from chunkers import languages, words
from flows.store.read import Hit

DEFINES = 3.0  # the row is the definition that a bare identifier asks for, spelt alike
IS_TYPE = 1.5  # ... a type, where the identifier begins with a capital
OWN_FILE = 2.0  # ... in the file of that name
NAMED = 1.5  # ... or that an identifier inside a question names
FILE_NAMED = 2.0  # the file is called like the identifier that is asked for
SAYS_SYMBOL = 1.0  # added in full when the question's words are the definition's name, and the name its words
STEM = 0.5  # added in full when the question says every word of the file's name
FOLDER = 0.25  # ... of its folder's name
# What is about the code, or beside it. Prose at .3 measured .004 to .01 better on questions about code, but then a
# section that alone has the words of a question stands behind code that has none of them; at .5, too.
ASIDE = {"test": 0.3, "doc": 0.6, "example": 0.3, "compat": 0.3}
MODULE_INDEX = 0.7  # files that only hand on what others define
FOLDERS = 3  # innermost ones whose names count
PREFIX = 4  # letters that two words share to be the same word in a name: route and router

_ASIDE: dict[str, re.Pattern[str]] = {  # kind -> paths that are of it, with a slash before them: half as dear as (^|/)
    "test": re.compile(
        r"/(tests?|testing|__tests__|specs?|fixtures?|mocks?|testdata|[\w-]*[-_]tests?)/"
        r"|/(test_[^/]*|[^/]*[._-](test|spec|bench)s?\.[^/]+|conftest\.py|[^/]*(Test|Tests|TestCase|Spec)\.\w+)$",
    ),
    "doc": re.compile(r"/(docs?|documentation|man)/|/(README|CHANGES|CHANGELOG|HISTORY|NEWS|AUTHORS)[^/]*$", re.I),
    "example": re.compile(r"/(examples?|samples?|demos?|docs_src|benchmarks?|bench|playground|tutorials?)/", re.I),
    "compat": re.compile(r"(compat|legacy|deprecated|polyfill)[^/]*(/|\.\w+$)", re.I),
}
_ASKED = {  # words of a question that ask for a kind after all
    "test": {"test", "tests", "testing", "tested", "spec", "fixture", "fixtures", "mock", "benchmark"},
    "doc": {"doc", "docs", "documentation", "readme", "changelog", "guide", "tutorial"},
    "example": {"example", "examples", "sample", "demo", "benchmark", "benchmarks", "tutorial"},
    "compat": {"compat", "compatibility", "legacy", "deprecated", "polyfill"},
}
_INDEX = re.compile(r"/(__init__\.pyi?|index\.[jt]sx?|[^/]*\.d\.ts)$")
_SEPARATOR = re.compile(r"\.|::|#|->")
_JOINT = re.compile(r"[^\w]|_")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*")


CLASS, BLOCK = 1, 3  # levels
STOP = frozenset(
    words.parts(
        "a all an and any are as at be between by can do does for from has have how i if in into is it its not of on or"
        " that the this to use used using via was we what when where which who why with you"
    )
)


class _English(threading.local):
    """A stemmer a thread: it has state while it stems. Without its cache, since we have our own."""

    def __init__(self) -> None:
        self.stem = Stemmer.Stemmer("english", 0).stemWord


_english = _English()


@dataclass(frozen=True, slots=True)
class Question:
    """A query, read once."""

    stems: tuple[str, ...]  # of its words, in order, without those that say nothing
    beginnings: dict[str, list[str]] = field(compare=False)  # first letters -> those that begin so
    asks_for: frozenset[str]  # tests, documentation, examples or code for compatibility
    identifiers: frozenset[str]  # what looks like a name of code, joined and in lower case
    identifier: str  # the last part of the one name that the query consists of, "" if it is more than that
    overlaps: dict[tuple[str, ...], tuple[float, float]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_identifier(self) -> bool:
        """Say whether the query is nothing but one name."""
        return bool(self.identifier)


def read(query: str) -> Question:
    """Read a query."""
    bare = query.strip().strip("`'\"()").strip()
    is_identifier = bool(_IDENTIFIER.fullmatch(bare))
    named = [bare] if is_identifier else [w for w in _IDENTIFIER.findall(query) if _looks_like_code(w)]
    stems = tuple(dict.fromkeys(_stem(part) for part in words.parts(query) if part not in STOP))
    beginnings: dict[str, list[str]] = {}
    for stem in stems:
        beginnings.setdefault(stem[:PREFIX], []).append(stem)
    return Question(
        stems,
        beginnings,
        frozenset(kind for kind, asked in _STEMS_ASKED.items() if not asked.isdisjoint(stems)),
        frozenset(_joined(_last(name)) for name in named) - {""},
        _last(bare) if is_identifier else "",
    )


def _looks_like_code(word: str) -> bool:
    return "_" in word.strip("_") or "." in word or "::" in word or bool(re.search(r"[a-z\d][A-Z]|[A-Z]{2}[a-z]", word))


def _last(name: str) -> str:
    return _SEPARATOR.split(name)[-1]


def _joined(name: str) -> str:
    return _JOINT.sub("", name).lower()


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return str(_english.stem(word))


_STEMS_ASKED = {kind: frozenset(map(_stem, asked)) for kind, asked in _ASKED.items()}


def factors(hits: Iterable[Hit], question: Question) -> list[float]:
    """Return the product of all rules for each row; those on files are asked once for each file."""
    if question.is_identifier:
        return [defines(hit, question) * is_called_so(hit, question) * stands_aside(hit, question) for hit in hits]
    files: dict[tuple[str, str, str], tuple[float, float]] = {}
    result = []
    for hit in hits:
        file = hit.path, hit.language, hit.category
        if file not in files:
            files[file] = says_path(hit, question), stands_aside(hit, question)
        of_path, aside = files[file]
        result.append(mentions(hit, question) * says_symbol(hit, question) * of_path * aside)
    return result


def defines(hit: Hit, question: Question) -> float:
    """Prefer the definition of the identifier that is asked for, spelt the same way; a type for a capital."""
    if not _is_named(hit, question) or _last(hit.symbol).lstrip("_$") != question.identifier.lstrip("_$"):
        return 1.0
    is_type = IS_TYPE if hit.level == CLASS and question.identifier[:1].isupper() else 1.0
    return DEFINES * is_type * (OWN_FILE if _file_called(hit.path) in question.identifiers else 1.0)


def is_called_so(hit: Hit, question: Question) -> float:
    """Prefer the file that is called like the identifier that is asked for."""
    return FILE_NAMED if _file_called(hit.path) in question.identifiers else 1.0


def mentions(hit: Hit, question: Question) -> float:
    """Prefer definitions of identifiers that stand inside a question."""
    return NAMED if _is_named(hit, question) else 1.0


def _is_named(hit: Hit, question: Question) -> bool:
    if not question.identifiers or not hit.symbol or hit.level == BLOCK:
        return False
    return _called(hit.symbol) in question.identifiers


@lru_cache(maxsize=65_536)
def _called(symbol: str) -> str:
    return _joined(_last(symbol))


def says_symbol(hit: Hit, question: Question) -> float:
    """Prefer definitions whose name the question says in its own words; the more of both is said, the more."""
    if not hit.symbol or hit.level == BLOCK:
        return 1.0
    of_name, of_question = _overlap(_spoken(hit.symbol), question)
    return 1.0 + SAYS_SYMBOL * of_name * math.sqrt(of_question)


def says_path(hit: Hit, question: Question) -> float:
    """Prefer files and folders whose name the question says."""
    stem, folders = _names(hit.path)
    return 1.0 + STEM * _overlap(stem, question)[0] + FOLDER * _overlap(folders, question)[0]


def _overlap(name: tuple[str, ...], question: Question) -> tuple[float, float]:
    """Return which share of a name's words the question says, and which share of the question's words the name says.

    Weighing words by how rare they are measured no better. Asked once for each name: many rows share one.
    """
    known = question.overlaps.get(name)
    if known is None:
        known = question.overlaps[name] = _compare(name, question)
    return known


def _compare(name: tuple[str, ...], question: Question) -> tuple[float, float]:
    begun = question.beginnings
    alike = [(word, stem) for word in name for stem in begun.get(word[:PREFIX], ()) if _alike(word, stem)]
    if not alike:
        return 0.0, 0.0
    said, heard = map(set, zip(*alike, strict=True))
    return len(said) / len(name), len(heard) / len(question.stems)


def _alike(one: str, other: str) -> bool:
    short, long = (one, other) if len(one) < len(other) else (other, one)
    return one == other or (len(short) >= PREFIX and long.startswith(short))


@lru_cache(maxsize=65_536)
def _spoken(symbol: str) -> tuple[str, ...]:
    return _stems(_last(symbol))


@lru_cache(maxsize=16_384)
def _names(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return _stems(_stem_of(path)), _stems(" ".join(path.split("/")[-1 - FOLDERS : -1]))


@lru_cache(maxsize=16_384)
def _file_called(path: str) -> str:
    return _joined(_stem_of(path))


def _stem_of(path: str) -> str:
    return path.rpartition("/")[2].split(".", 1)[0]


def _stems(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_stem, words.parts(name))))


def stands_aside(hit: Hit, question: Question) -> float:
    """Let what is about the code stand behind the code, unless it was asked for."""
    kinds = _kinds(hit.path, hit.language, hit.category)
    weights = [ASIDE[kind] for kind in kinds if kind not in question.asks_for] if kinds else []
    return (min(weights) if weights else 1.0) * (MODULE_INDEX if _is_index(hit.path) else 1.0)


@lru_cache(maxsize=16_384)
def _is_index(path: str) -> bool:
    return bool(_INDEX.search(f"/{path}"))


@lru_cache(maxsize=65_536)
def _kinds(path: str, language: str, category: str) -> tuple[str, ...]:
    """Return what a file is besides code; of documentation, what the repository says goes before path and language."""
    kinds = [kind for kind in _ASIDE if _is(kind, path)]
    if category:
        kinds = [kind for kind in kinds if kind != "doc"] + ["doc"] * (category == "docs")
    elif "doc" not in kinds and _is_prose(language):
        kinds.append("doc")
    return tuple(kinds)


def _is(kind: str, path: str) -> bool:
    return bool(_ASIDE[kind].search(f"/{path}"))


@lru_cache(maxsize=16_384)
def kind(path: str, language: str) -> int:
    """Return 0 for code, 1 for tests and examples, 2 for data, 3 for documents: the order of an exact search."""
    category = languages.get(language).category
    if category == "docs" or _is("doc", path):
        return 3
    if _is("test", path) or _is("example", path):
        return 1
    return 0 if category == "code" else 2


@lru_cache(maxsize=1_024)
def _is_prose(language: str) -> bool:
    return languages.get(language).category == "docs"
