"""The table of languages: one row a language, and how a file's name or first line leads to a row.

Adding a language with a grammar is a row in ``_GRAMMARS``, a query file and a fixture. It must not know what a cut is.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Literal

import tree_sitter
from identify import identify
from identify.extensions import EXTENSIONS, EXTENSIONS_NEED_BINARY_CHECK, NAMES
from identify.interpreters import INTERPRETERS

Category = Literal["code", "docs", "data", "other text"]
Comments = Literal["slash", "xml", "hash", "python", "dash", "quoted", "ml", "natspec", "pod", "percent", "semicolon"]
How = Literal["tree", "markdown", "rst", "asciidoc", "notebook", "component", "plain"]


_PACK = "language_pack.bindings."  # a wheel of 165 grammars, each a module of its own that loads alone


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where a tree-sitter grammar and its queries come from: a pinned wheel and files of ``chunkers/queries``."""

    module: str
    function: str
    queries: tuple[str, ...]
    comments: Comments  # what the lines before a definition must look like to be its documentation

    loses_itself: bool = False  # takes quadratic time over text that is not its language

    @property
    def wheel(self) -> str:
        return self.module.partition(".")[0].replace("_", "-")

    @property
    def extra(self) -> str:
        """The extra of this project that installs the wheel, unless every installation has it."""
        return "languages-all" if self.module.startswith(f"tree_sitter_{_PACK}") else "languages"

    def load(self) -> tree_sitter.Language:
        """Import the wheel and return its grammar; raise ImportError if it is not installed."""
        return tree_sitter.Language(getattr(importlib.import_module(self.module), self.function)())


@dataclass(frozen=True, slots=True)
class Language:
    """One row: a name for filters, a category for ranking and the way it is cut."""

    name: str
    category: Category
    how: How = "plain"
    grammar: Grammar | None = None
    border: str = ""  # a pattern of lines that "plain" would rather begin a chunk with


def _grammar(
    module: str,
    *queries: str,
    function: str = "language",
    comments: Comments = "slash",
    loses_itself: bool = False,
) -> Grammar:
    return Grammar(f"tree_sitter_{module}", function, queries or (module,), comments, loses_itself)


_GRAMMARS: dict[str, Grammar] = {
    "python": _grammar("python", comments="python"),
    "javascript": _grammar("javascript", "ecma", "javascript"),
    "jsx": _grammar("javascript", "ecma", "javascript"),
    "typescript": _grammar("typescript", "ecma", "typescript", function="language_typescript"),
    "tsx": _grammar("typescript", "ecma", "typescript", function="language_tsx"),
    "go": _grammar("go", "go"),
    "java": _grammar("java", "java"),
    "rust": _grammar("rust", "rust"),
    "c": _grammar("c", "c"),
    "cpp": _grammar("cpp", "c", "cpp"),
    "csharp": _grammar("c_sharp", comments="xml"),
    "ruby": _grammar("ruby", comments="hash"),
    "php": _grammar("php", function="language_php"),
    "kotlin": _grammar("kotlin", loses_itself=True),
    "scala": _grammar("scala"),
    "swift": _grammar("swift"),
    "shell": _grammar("bash", comments="hash"),
    "lua": _grammar("lua", comments="dash", loses_itself=True),
    # From here on wheels of the extra "languages".
    "elixir": _grammar("elixir", comments="quoted"),
    "haskell": _grammar("haskell", comments="dash"),
    "zig": _grammar("zig"),
    "dart": _grammar("dart", loses_itself=True),
    "julia": _grammar("julia", comments="quoted", loses_itself=True),
    "objective-c": _grammar("objc", "c", "objc"),
    "sql": _grammar("sql", comments="dash"),
    "terraform": _grammar("hcl", comments="hash"),
    "hcl": _grammar("hcl", comments="hash"),
    "ocaml": _grammar("ocaml", function="language_ocaml", comments="ml"),
    # From here on the wheel of the extra "languages-all".
    "r": _grammar(f"{_PACK}r", "r", comments="hash"),
    "perl": _grammar(f"{_PACK}perl", "perl", comments="pod"),
    "solidity": _grammar(f"{_PACK}solidity", "solidity", comments="natspec"),
    "erlang": _grammar(f"{_PACK}erlang", "erlang", comments="percent"),
    "clojure": _grammar(f"{_PACK}clojure", "clojure", comments="semicolon", loses_itself=True),
}
_DOCUMENTS: dict[str, How] = {
    "markdown": "markdown",
    "mdx": "markdown",
    "myst": "markdown",
    "quarto": "markdown",
    "rst": "rst",
    "asciidoc": "asciidoc",
    "jupyter": "notebook",
    "vue": "component",
    "svelte": "component",
}
# Lines at which text without a grammar is best cut: a pattern for their beginning.
_BORDERS: dict[str, str] = {
    "yaml": r"[\w\"'$][^#]*:(?:\s|$)|---",
    "toml": r"\[",
    "ini": r"\[",
    "json": r"(?:  |    |\t)\"",
    "json5": r"(?:  |    |\t)[\w\"']",
    "css": r"[^\s}/*]",
    "scss": r"[^\s}/*]",
    "less": r"[^\s}/*]",
    "sass": r"[^\s/*]",
    "proto": r"(?:message|service|enum|extend)\b",
    "graphql": r"(?:extend\s+)?(?:type|interface|input|enum|union|scalar|directive|schema|query|mutation|fragment)\b",
    "thrift": r"(?:struct|service|enum|union|exception)\b",
    "dockerfile": r"(?i:FROM)\b",
    "makefile": r"[\w.%/$(){}-][^=#]*:(?!=)|define\b|ifn?(?:eq|def)\b",
    "cmake": r"(?i:function|macro|if|foreach|add_\w+|project)\s*\(",
    "html": r"\s{0,8}<(?:head|body|nav|main|section|article|aside|footer|h[1-6]|script|style|template|form|table)",
    "xml": r"(?:  |    |\t)<\w",
}

# Tags of `identify` that are one language under another name here; the first that a file carries wins.
_TAG_NAMES: dict[str, str] = {
    "c": "c",
    "c++": "cpp",
    "pyi": "python",
    "python": "python",
    "python2": "python",
    "python3": "python",
    "javascript": "javascript",
    "jsx": "jsx",
    "ts": "typescript",
    "tsx": "tsx",
    "jupyter": "jupyter",
    "c#": "csharp",
    "f#": "fsharp",
    "bash": "shell",
    "sh": "shell",
    "zsh": "shell",
    "ksh": "shell",
    "dash": "shell",
    "shell": "shell",
    "svg": "svg",
    "toml": "toml",
    "json": "json",
    "yaml": "yaml",
    "xml": "xml",
    "ini": "ini",
    "plist": "plist",
    "markdown": "markdown",
}
# Extensions that `identify` does not know yet.
_EXTENSIONS: dict[str, str] = {
    "mts": "typescript",
    "cts": "typescript",
    "markdown": "markdown",
    "mdx": "mdx",
    "rmd": "markdown",
    "edn": "edn",
    "psgi": "perl",
}
# Interpreters that it does not know yet.
_INTERPRETERS: dict[str, str] = {"Rscript": "r", "bb": "clojure", "clojure": "clojure", "clj": "clojure"}
_FILES: dict[str, str] = {"Makefile.PL": "perl", "Build.PL": "perl", "cpanfile": "perl", ".Rprofile": "r"}

# What editors and GitHub call a language, unless that is its name, a tag or an extension.
_ALIASES: dict[str, str] = {
    "cc-mode": "c",
    "cperl": "perl",
    "conf": "ini",
    "dosini": "ini",
    "enh-ruby": "ruby",
    "gnumakefile": "makefile",
    "golang": "go",
    "javascriptreact": "jsx",
    "js2": "javascript",
    "js3": "javascript",
    "jupyter-notebook": "jupyter",
    "make": "makefile",
    "makefile-bsdmake": "makefile",
    "makefile-gmake": "makefile",
    "nxml": "xml",
    "objc": "objective-c",
    "protocol-buffer": "proto",
    "protobuf": "proto",
    "restructuredtext": "rst",
    "shell-script": "shell",
    "typescriptreact": "tsx",
    "web": "html",
}


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NO_LANGUAGE = _set(
    "text binary file directory symlink socket executable non-executable header image audio video archive "
    "plain-text font"
)
_DOCS = _set("markdown mdx rst asciidoc jupyter myst quarto tex org textile pod rd typst creole man ngdoc")
_DATA = _set(
    "json json5 jsonl ndjson yaml toml ini csv tsv xml svg plist properties java-properties pofile po pot diff "
    "go-sum gemfile-lock pem gettext bib edn icalendar avro-schema textproto wkt map manifest vdx fits dbc"
)
_OTHER = _set(
    "text gitignore prettierignore gitattributes gitmodules dockerignore npmignore editorconfig mailmap codeowners "
    "cfg license dotenv inc browserslistrc"
)

DEFAULT = Language("text", "other text")


def detect(filename: str) -> Language:
    """Return the language that a file's name tells; "text" if it tells none. Folders are ignored."""
    name = filename.rsplit("/", 1)[-1]
    known = _FILES.get(name) or _EXTENSIONS.get(PurePosixPath(name).suffix.lstrip(".").lower())
    return get(known) if known else _of_tags(identify.tags_from_filename(name))


def by_shebang(first_line: str) -> Language | None:
    """Return the language of the interpreter that a ``#!`` line names, None without one that is known."""
    words = first_line[2:].split() if first_line.startswith("#!") else []
    if words and words[0].rsplit("/", 1)[-1] == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words:
        return None
    program = words[0].rsplit("/", 1)[-1]
    if program in _INTERPRETERS:
        return get(_INTERPRETERS[program])
    language = _of_tags(identify.tags_from_interpreter(program))
    return None if language is DEFAULT else language


def by_alias(word: str) -> Language | None:
    """Return the language that people, editors or GitHub call so, None if it is none that is known."""
    name = word.strip().lower().replace(" ", "-").removesuffix("-mode").removesuffix("-ts")
    name = _ALIASES.get(name, name)
    tags = {name} if name in _TAG_NAMES else EXTENSIONS.get(name, ())
    language = get(name) if name in _table() else _of_tags(tags)
    return None if language is DEFAULT else language


def by_content(shebang: str, modeline: str) -> Language | None:
    """Return what a file's first line, or else what it says to an editor, names: for names that tell nothing."""
    return by_shebang(shebang) or (by_alias(modeline) if modeline else None)


def get(name: str) -> Language:
    """Return the row of a language; raise KeyError, naming the nearest one, if there is none."""
    try:
        return _table()[name]
    except KeyError:
        near = difflib.get_close_matches(name, _table(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise KeyError(f"unknown language {name!r}{hint}") from None


def names() -> tuple[str, ...]:
    """Return every language name that a filter may use, sorted."""
    return tuple(sorted(_table()))


def _of_tags(tags: Iterable[str]) -> Language:
    found = set(tags)
    if "binary" in found:
        return DEFAULT
    for tag, name in _TAG_NAMES.items():
        if tag in found:
            return get(name)
    specific = sorted(found - _NO_LANGUAGE)
    return get(specific[0]) if specific else DEFAULT


def _category(name: str) -> Category:
    if name in _DOCS:
        return "docs"
    if name in _DATA:
        return "data"
    return "other text" if name in _OTHER else "code"


@cache
def _table() -> dict[str, Language]:
    sources = (*EXTENSIONS.values(), *EXTENSIONS_NEED_BINARY_CHECK.values(), *NAMES.values(), *INTERPRETERS.values())
    tags = {tag for found in sources if "binary" not in found for tag in found} - _NO_LANGUAGE - set(_TAG_NAMES)
    plain = tags | set(_TAG_NAMES.values()) | set(_EXTENSIONS.values()) | set(_DOCUMENTS) | set(_BORDERS)
    rows = {
        name: Language(name, _category(name), _DOCUMENTS.get(name, "plain"), border=_BORDERS.get(name, ""))
        for name in plain
    }
    rows |= {name: Language(name, "code", "tree", grammar) for name, grammar in _GRAMMARS.items()}
    rows[DEFAULT.name] = DEFAULT
    return rows


@cache
def of_category(category: Category) -> tuple[str, ...]:
    """Return the names of the languages of a category."""
    return tuple(sorted(row.name for row in _table().values() if row.category == category))


@cache
def grammar_version(grammar: Grammar) -> str:
    """Return the version of the grammar's wheel, "absent" if it is not installed."""
    try:
        return importlib.metadata.version(grammar.wheel)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
