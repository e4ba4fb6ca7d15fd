"""What a question and a place say about each other, besides words and vectors: one named factor a rule.

A factor of 1 changes nothing. All are pure functions of the question and of one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from chunkers import languages, words
from flows.store.read import Hit

DEFINES = 3.0  # the row is the definition that a bare identifier asks for
NAMED = 1.5  # ... or that an identifier inside a question names
STEM = 0.5  # added in full when the question says every word of the file's name
FOLDER = 0.25  # ... of its folder's name
# What is about the code, or beside it. Prose at .3 measured .004 to .01 better on questions about code, but then a
# section that alone has the words of a question stands behind code that has none of them.
ASIDE = {"test": 0.3, "doc": 0.5, "example": 0.3, "compat": 0.3}
MODULE_INDEX = 0.7  # files that only hand on what others define

_ASIDE: dict[str, re.Pattern[str]] = {  # kind -> paths that are of it
    "test": re.compile(
        r"(^|/)(tests?|testing|__tests__|specs?|fixtures?|mocks?|testdata|[\w-]*[-_]tests?)/"
        r"|(^|/)(test_[^/]*|[^/]*[._-](test|spec|bench)s?\.[^/]+|conftest\.py|[^/]*(Test|Tests|TestCase|Spec)\.\w+)$",
    ),
    "doc": re.compile(
        r"(^|/)(docs?|documentation|man)/|(^|/)(README|CHANGES|CHANGELOG|HISTORY|NEWS|AUTHORS)[^/]*$", re.I
    ),
    "example": re.compile(r"(^|/)(examples?|samples?|demos?|docs_src|benchmarks?|bench|playground|tutorials?)/", re.I),
    "compat": re.compile(r"(^|/)[^/]*(compat|legacy|deprecated|polyfill)[^/]*(/|\.\w+$)", re.I),
}
_ASKED = {  # words of a question that ask for a kind after all
    "test": {"test", "tests", "testing", "tested", "spec", "fixture", "fixtures", "mock", "benchmark"},
    "doc": {"doc", "docs", "documentation", "readme", "changelog", "guide", "tutorial"},
    "example": {"example", "examples", "sample", "demo", "benchmark", "benchmarks", "tutorial"},
    "compat": {"compat", "compatibility", "legacy", "deprecated", "polyfill"},
}
_INDEX = re.compile(r"(^|/)(__init__\.pyi?|index\.[jt]sx?|mod\.rs|lib\.rs|[^/]*\.d\.ts)$")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*")


@dataclass(frozen=True, slots=True)
class Question:
    """A query, read once."""

    parts: frozenset[str]  # its words, split, in the singular
    identifiers: frozenset[str]  # what looks like a name of code, joined and in lower case
    is_identifier: bool  # nothing but one name

    def asks_for(self, kind: str) -> bool:
        """Say whether the words ask for tests, documentation, examples or code for compatibility."""
        return bool(self.parts & {_singular(word) for word in _ASKED[kind]})


def read(query: str) -> Question:
    """Read a query."""
    bare = query.strip().strip("`'\"()").strip()
    is_identifier = bool(_IDENTIFIER.fullmatch(bare))
    named = [bare] if is_identifier else [w for w in _IDENTIFIER.findall(query) if _looks_like_code(w)]
    parts = frozenset(_singular(part) for part in words.parts(query))
    return Question(parts, frozenset(_joined(_last(name)) for name in named), is_identifier)


def _looks_like_code(word: str) -> bool:
    return "_" in word.strip("_") or "." in word or "::" in word or bool(re.search(r"[a-z\d][A-Z]|[A-Z]{2}[a-z]", word))


def _last(name: str) -> str:
    return re.split(r"\.|::|#|->", name)[-1]


def _joined(name: str) -> str:
    return re.sub(r"[^\w]|_", "", name).lower()


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def factor(hit: Hit, question: Question) -> float:
    """Return the product of all rules for a row."""
    return defines(hit, question) * says_its_name(hit, question) * stands_aside(hit, question)


def defines(hit: Hit, question: Question) -> float:
    """Prefer the definition of an identifier that the question consists of, or names."""
    if not hit.symbol or hit.level == 3 or _joined(_last(hit.symbol)) not in question.identifiers:
        return 1.0
    return DEFINES if question.is_identifier else NAMED


def says_its_name(hit: Hit, question: Question) -> float:
    """Prefer files and folders whose name the question says."""
    if question.is_identifier:
        return 1.0
    stem, folder = _names(hit.path)
    return 1.0 + STEM * _share(stem, question.parts) + FOLDER * _share(folder, question.parts)


@lru_cache(maxsize=16_384)
def _names(path: str) -> tuple[frozenset[str], frozenset[str]]:
    folders, _, name = path.rpartition("/")
    return _parts(name.split(".", 1)[0]), _parts(folders.rpartition("/")[2])


def _parts(name: str) -> frozenset[str]:
    return frozenset(_singular(part) for part in words.parts(name))


def _share(name: frozenset[str], parts: Iterable[str]) -> float:
    return len(name.intersection(parts)) / len(name) if name else 0.0


def stands_aside(hit: Hit, question: Question) -> float:
    """Let what is about the code stand behind the code, unless it was asked for."""
    weight = 1.0
    for kind, paths in _ASIDE.items():
        if (paths.search(hit.path) or (kind == "doc" and _is_prose(hit.language))) and not question.asks_for(kind):
            weight = min(weight, ASIDE[kind])
    return weight * (MODULE_INDEX if _INDEX.search(hit.path) else 1.0)


@lru_cache(maxsize=16_384)
def kind(path: str, language: str) -> int:
    """Return 0 for code, 1 for tests and examples, 2 for data, 3 for documents: the order of an exact search."""
    category = languages.get(language).category
    if category == "docs" or _ASIDE["doc"].search(path):
        return 3
    if _ASIDE["test"].search(path) or _ASIDE["example"].search(path):
        return 1
    return 0 if category == "code" else 2


@lru_cache(maxsize=1_024)
def _is_prose(language: str) -> bool:
    return languages.get(language).category == "docs"
