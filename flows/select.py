"""Which files of a commit are indexed, and as what: a pure function of path, rules and the blob's facts.

A path is first judged by its name alone (:func:`by_path`), then, unless that decided, by what is in the blob
(:func:`by_facts`). What a rule denies leaves no trace; everything else that is left out has a :class:`SkipReason`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

import pathspec

from chunkers import languages
from flows.decode import FACTS_VERSION, Facts
from flows.git import Entry

SELECTION_VERSION = 1
TEXT = "text"  # the language of a file whose name tells nothing


class SkipReason(StrEnum):
    """Why a file is listed but not indexed."""

    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    LFS = "lfs_pointer"
    TOO_LARGE = "too_large"
    BINARY = "binary"
    MINIFIED = "minified"
    LOCK_FILE = "lock_file"
    SOURCE_MAP = "source_map"
    FAILED = "failed"


_LOCK_FILES = """
package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock deno.lock composer.lock Gemfile.lock Cargo.lock
poetry.lock Pipfile.lock uv.lock pdm.lock pixi.lock go.sum mix.lock pubspec.lock Podfile.lock flake.lock
packages.lock.json gradle.lockfile
"""
SKIPPED_NAMES = dict.fromkeys(_LOCK_FILES.split(), SkipReason.LOCK_FILE)
SKIPPED_SUFFIXES = {
    ".min.js": SkipReason.MINIFIED,
    ".min.css": SkipReason.MINIFIED,
    ".js.map": SkipReason.SOURCE_MAP,
    ".css.map": SkipReason.SOURCE_MAP,
    ".mjs.map": SkipReason.SOURCE_MAP,
}
LONG_LINE = 5_000  # characters: beyond it, and with lines of ...
MEAN_LINE = 500  # ... this length on average, nobody wrote the file by hand


@dataclass(frozen=True)
class Rules:
    """What a repository's configuration lets in: gitignore-style globs from its root; deny wins. Sizes in bytes."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_bytes: int = 1_000_000

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything a decision depends on, besides path and blob."""
        settings = [SELECTION_VERSION, FACTS_VERSION, asdict(self)]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:32]

    def denies(self, path: str) -> bool:
        """Say whether ``path`` is outside the allow list or on the deny list."""
        if self.allow and not self._allowed.match_file(path):
            return True
        return bool(self.deny) and self._denied.match_file(path)

    @cached_property
    def _allowed(self) -> pathspec.GitIgnoreSpec:
        return pathspec.GitIgnoreSpec.from_lines(self.allow)

    @cached_property
    def _denied(self) -> pathspec.GitIgnoreSpec:
        return pathspec.GitIgnoreSpec.from_lines(self.deny)


@dataclass(frozen=True, slots=True)
class Keep:
    """The file is indexed as ``language``."""

    language: str


@dataclass(frozen=True, slots=True)
class Skip:
    """The file is listed with a reason."""

    reason: SkipReason


class Denied:
    """The file does not exist for this index."""


def by_path(entry: Entry, rules: Rules) -> Keep | Skip | Denied:
    """Judge an entry by mode and name; Keep's language may still be overruled by a shebang."""
    path = entry.path.decode(errors="surrogateescape")
    if rules.denies(path):
        return Denied()
    if entry.mode == "160000":
        return Skip(SkipReason.SUBMODULE)
    if entry.mode == "120000":
        return Skip(SkipReason.SYMLINK)
    name = path.rpartition("/")[2]
    reason = SKIPPED_NAMES.get(name) or _by_suffix(name)
    return Skip(reason) if reason else Keep(_language(name))


def _by_suffix(name: str) -> SkipReason | None:
    if name.count(".") < 2:
        return None
    return SKIPPED_SUFFIXES.get("." + ".".join(name.lower().rsplit(".", 2)[1:]))


@lru_cache(maxsize=65536)
def _language(name: str) -> str:
    return languages.detect(name.encode(errors="replace").decode()).name


def by_facts(language: str, size: int, facts: Facts | None, rules: Rules) -> Keep | Skip | None:
    """Judge a blob that a path offers as ``language``; None = it must be read to know."""
    if size > rules.max_bytes:
        return Skip(SkipReason.TOO_LARGE)
    if facts is None or not facts.read:
        return None
    if facts.lfs:
        return Skip(SkipReason.LFS)
    if facts.binary:
        return Skip(SkipReason.BINARY)
    if facts.longest_line > LONG_LINE and facts.characters > facts.lines * MEAN_LINE:
        return Skip(SkipReason.MINIFIED)
    if language == TEXT and facts.shebang:
        named = languages.by_shebang(facts.shebang)
        return Keep(named.name if named else TEXT)
    return Keep(language)
