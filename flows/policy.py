"""What the files of a commit say about its other files: ``.gitattributes`` and ``.gitstrataignore``.

``.gitattributes`` (of any folder, with git's semantics: the last match wins, deeper files over higher ones) tells
generated, vendored, documentation and LFS files, and languages; ``.gitstrataignore`` at the root (gitignore syntax) can
only keep files out. Both are read from the commit, denied or not, and never stored because of it. It must not know what
selection makes of them.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pathspec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from flows.git import Entry, ObjectReader, Repository
from flows.names import BACKEND

ATTRIBUTES = b".gitattributes"
IGNORE = b".gitstrataignore"
MAX_BYTES = 1_000_000  # of a policy file; what follows is passed over
MAX_LINE = 2_048  # of .gitattributes; git passes over longer ones, too
MAX_STARS = 3  # in a part of a path: more would let a hostile pattern take forever

GENERATED = "linguist-generated"
VENDORED = "linguist-vendored"
DOCUMENTATION = "linguist-documentation"
LANGUAGE = "linguist-language"
FILTER = "filter"
_KNOWN = frozenset({GENERATED, VENDORED, DOCUMENTATION, LANGUAGE, FILTER})

State = bool | str | None  # set, unset or a value; None = unspecified


@dataclass(frozen=True, slots=True)
class Setting:
    """The state of an attribute, and the line it comes from."""

    state: State
    rule: str  # "file:line: the line"

    @property
    def is_on(self) -> bool:
        """Say whether a boolean attribute holds."""
        return self.state not in (None, False, "false")


States = tuple[tuple[str, State], ...]


@dataclass(frozen=True, slots=True)
class _Line:
    pattern: GitIgnoreSpecPattern
    states: States
    rule: str

    def matches(self, path: str) -> bool:
        """Say whether the pattern is for the path itself: unlike gitignore's, it is not for what lies in a folder."""
        regex = self.pattern.regex
        found = regex.match(path) if regex else None
        return found is not None and not found.groupdict().get("ps_d")


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy files of one commit. ``fingerprint`` is "" without any."""

    fingerprint: str = ""
    lines: Mapping[str, tuple[_Line, ...]] = field(default_factory=dict)  # by folder: "" or "a/b/"
    macros: Mapping[str, States] = field(default_factory=dict)
    ignore: pathspec.GitIgnoreSpec | None = None
    ignore_lines: tuple[str, ...] = ()

    def denies(self, path: str) -> str:
        """Return the line of ``.gitstrataignore`` that keeps ``path`` out, "" if none does."""
        if self.ignore is None:
            return ""
        found = self.ignore.check_file(path)
        if not found.include or found.index is None:
            return ""
        return f"{IGNORE.decode()}:{found.index + 1}: {self.ignore_lines[found.index].strip()}"

    def attributes(self, path: str) -> dict[str, Setting]:
        """Return the settings of the attributes that matter here."""
        found: dict[str, Setting] = {}
        ends = [i + 1 for i, char in enumerate(path) if char == "/"] if self.lines else []
        for end in (*reversed(ends), 0):
            for line in reversed(self.lines.get(path[:end], ())):
                if line.matches(path[end:]):
                    self._fill(found, line.states, line.rule)
        return {name: setting for name, setting in found.items() if name in _KNOWN}

    def _fill(self, found: dict[str, Setting], states: States, rule: str) -> None:
        """Add what is not decided yet: the last match, and the last word in it, wins."""
        pending = list(states)
        while pending:
            name, state = pending.pop()
            if name not in found:
                found[name] = Setting(state, rule)
                if state is True:
                    pending += self.macros.get(name, ())


def read(repository: Repository, entries: Iterable[Entry]) -> Policy:
    """Return the policy of a commit with ``entries``.

    Raises:
        SourceError: a policy file is missing or corrupt: without it, too much might be let in.
    """
    files = [entry for entry in entries if entry.path.endswith((ATTRIBUTES, IGNORE)) and _is_policy(entry)]
    if not files:
        return Policy()
    with ObjectReader(repository) as reader:
        return parse({entry.path: reader.read(entry.oid) for entry in files})


def _is_policy(entry: Entry) -> bool:
    """Say whether git would read the file; it follows no symlink there, either."""
    is_file = entry.mode.startswith("100")
    return is_file and (entry.path == IGNORE or entry.path.rpartition(b"/")[2] == ATTRIBUTES)


def parse(files: Mapping[bytes, bytes]) -> Policy:
    """Return the policy that these files, contents by path, make up."""
    macros: dict[str, States] = {}
    lines: dict[str, tuple[_Line, ...]] = {}
    for path in sorted(files, key=lambda path: (path.count(b"/"), path)):
        if path != IGNORE:
            name = path.decode(errors="surrogateescape")
            lines[name.removesuffix(ATTRIBUTES.decode())] = tuple(_attribute_lines(name, _text(files[path]), macros))
    known = _KNOWN | macros.keys()
    lines = {k: tuple(line for line in v if any(n in known for n, _ in line.states)) for k, v in lines.items()}
    ignored = tuple(_text(files.get(IGNORE, b"")).split("\n"))
    patterns = [pattern for line in ignored for pattern in _compile(_tame(line.removesuffix("\r")))]
    is_empty = all(pattern.include is None for pattern in patterns)
    spec = None if is_empty else pathspec.GitIgnoreSpec(patterns, backend=BACKEND)
    lines = {folder: found for folder, found in lines.items() if found}
    ignored = ignored if spec else ()
    return Policy(_fingerprint(lines, macros, ignored), lines, macros, spec, ignored)


def _fingerprint(lines: Mapping[str, tuple[_Line, ...]], macros: Mapping[str, States], ignored: Sequence[str]) -> str:
    """Return a digest of what matters here: most edits of a ``.gitattributes`` are about line ends and diffs."""
    if not lines and not ignored:
        return ""
    told = [
        (folder, [(line.pattern.regex.pattern if line.pattern.regex else "", line.states) for line in found])
        for folder, found in lines.items()
    ]
    return hashlib.sha256(repr((sorted(told), sorted(macros.items()), ignored)).encode()).hexdigest()[:32]


def _text(content: bytes) -> str:
    return content[:MAX_BYTES].removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")


def _attribute_lines(file: str, text: str, macros: dict[str, States]) -> Iterable[_Line]:
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        if not line or line.startswith("#") or len(line) > MAX_LINE:
            continue
        pattern, words = _split(line)
        states = tuple(map(_state, words))
        if pattern.startswith("[attr]"):
            if "/" not in file:  # only the root defines any
                macros[pattern.removeprefix("[attr]")] = states
        elif states and not pattern.startswith("!"):
            for compiled in _compile(_tame(pattern)):
                if compiled.include is not None:
                    yield _Line(compiled, states, f"{file}:{number}: {line}")


def _split(line: str) -> tuple[str, list[str]]:
    """Return pattern and attributes of a line; a pattern may stand in quotes, as in C."""
    if quoted := re.match(r'"((?:[^"\\]|\\.)*)"', line):
        plain = re.sub(r"\\([0-7]{3}|.)", lambda m: _UNQUOTED.get(m[1], m[1]), quoted.group(1))
        return plain, line[quoted.end() :].split()
    pattern, *words = line.split()
    return pattern, words


_UNQUOTED = {"t": "\t", "n": "\n", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _state(word: str) -> tuple[str, State]:
    if word.startswith(("-", "!")):
        return word[1:], False if word[0] == "-" else None
    name, equals, value = word.partition("=")
    return name, value if equals else True


def _tame(pattern: str) -> str:
    """Return a pattern without character classes that pathspec does not know, and without too many stars.

    What replaces many stars matches more than they do.
    """
    pattern = pattern.replace("[[:space:]]", "[ \t]")
    parts = pattern.split("/")
    deep = [i for i, part in enumerate(parts) if part == "**"]
    if len(deep) > MAX_STARS:
        parts = [*parts[: deep[0] + 1], *parts[deep[-1] + 1 :]]
    return "/".join(map(_tame_part, parts))


def _tame_part(part: str) -> str:
    if part == "**" or part.count("*") <= MAX_STARS:
        return part
    return part[: part.index("*") + 1] + part[part.rindex("*") + 1 :]


def compile_glob(glob: str) -> list[GitIgnoreSpecPattern]:
    """Return the pattern of a gitignore-style glob that anybody may have written; it takes no time out of bounds."""
    return _compile(_tame(glob))


def _compile(line: str) -> list[GitIgnoreSpecPattern]:
    """Return the one pattern of a line, one that matches nothing if the line is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [GitIgnoreSpecPattern(line)]
    except (ValueError, re.error):
        return [GitIgnoreSpecPattern("")]
