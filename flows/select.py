"""Which files of a commit are indexed, and as what: a pure function of path, rules, policy and the blob's facts.

A path is first judged by its name alone (:func:`by_path`), then, unless that decided, by what is in the blob
(:func:`by_facts`). What a rule denies leaves no trace; everything else that is left out has a :class:`SkipReason`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache

import pathspec

from chunkers import languages
from flows import names, policy
from flows.decode import FACTS_VERSION, Facts
from flows.git import Entry
from flows.names import BACKEND, SkipReason
from flows.policy import Policy, Setting
from flows.secrets import MASK_VERSION, mask_name

__all__ = ["Denied", "Keep", "Rules", "Skip", "SkipReason", "by_facts", "by_path"]

SELECTION_VERSION = 3
TEXT = "text"  # the language of a file whose name tells nothing


@dataclass(frozen=True)
class Rules:
    """What a repository's configuration lets in: gitignore-style globs from its root; deny wins. Sizes in bytes."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_bytes: int = 1_000_000
    languages: tuple[str, ...] = ()  # () = all
    include_generated: bool = False
    include_vendored: bool = False

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything a decision depends on, besides path, policy and blob."""
        tables = [names.NAMES, names.EXAMPLES, _LONG, _RECORDS, _NUMBERS, _is_cut_by_cells()]
        settings = [SELECTION_VERSION, FACTS_VERSION, MASK_VERSION, asdict(self), tables]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:32]

    def denies(self, path: str) -> bool:
        """Say whether ``path`` is outside the allow list or on the deny list."""
        return self.deciding(path) is not None

    def deciding(self, path: str) -> tuple[str, str] | None:
        """Return the key and the glob that keep ``path`` out; ("allow", "") if it is outside the allow list."""
        if self.allow and not self._allowed.match_file(path):
            return "allow", ""
        found = self._denied.check_file(path) if self.deny else None
        return ("deny", self.deny[found.index]) if found and found.include and found.index is not None else None

    @cached_property
    def _allowed(self) -> pathspec.GitIgnoreSpec:
        return pathspec.GitIgnoreSpec.from_lines(self.allow, backend=BACKEND)

    @cached_property
    def _denied(self) -> pathspec.GitIgnoreSpec:
        return pathspec.GitIgnoreSpec.from_lines(self.deny, backend=BACKEND)


@dataclass(frozen=True, slots=True, order=True)
class Keep:
    """The file is indexed as ``language``; ``category`` is what ``.gitattributes`` calls it, docs or code, else ""."""

    language: str
    even_generated: bool = False  # even if its content says that a program wrote it
    category: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """The file is listed with a reason; ``rule`` says what decided that."""

    reason: SkipReason
    rule: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Denied:
    """The file does not exist for this index; ``rule`` says why, ``key`` and ``entry`` where configuration does."""

    rule: str = field(default="", compare=False)
    key: str = field(default="", compare=False)
    entry: str = field(default="", compare=False)


def by_path(entry: Entry, rules: Rules, told: Policy) -> Keep | Skip | Denied:
    """Judge an entry by mode and name; where they tell no language, the content may."""
    path = entry.path.decode(errors="surrogateescape")
    if denied := denies(path, rules, told):
        return denied
    if entry.mode == "160000":
        return Skip(SkipReason.SUBMODULE, "its mode in the tree, 160000")
    if entry.mode == "120000":
        return Skip(SkipReason.SYMLINK, "its mode in the tree, 120000")
    return by_name(path, rules, told)


def denies(path: str, rules: Rules, told: Policy) -> Denied | None:
    """Return what keeps ``path`` out of the index, if it exists or not: configuration or ``.gitstrataignore``."""
    if decided := rules.deciding(path):
        key, glob = decided
        return Denied(f"deny: {glob}" if key == "deny" else "the allow list, which does not name it", key, glob)
    line = told.denies(path)
    return Denied(line) if line else None


def by_name(path: str, rules: Rules, told: Policy) -> Keep | Skip:
    """Judge the path of a file that nothing denies."""
    found = {reason: f"built-in name: {pattern}" for reason, pattern in names.reasons(path).items()}
    if mask_name(path) != path:
        found[SkipReason.SECRET] = "a secret in its name"
    settings = told.attributes(path)
    if (setting := settings.get(policy.FILTER)) and setting.state == "lfs":
        found[SkipReason.LFS] = setting.rule
    for reason, attribute in _TOLD.items():
        setting = settings.get(attribute)
        if setting is not None and setting.state is not None:
            found.pop(reason, None)
            if setting.is_on:
                found[reason] = setting.rule
    if rules.include_generated:
        found.pop(SkipReason.GENERATED, None)
    if rules.include_vendored:
        found.pop(SkipReason.VENDORED, None)
    for reason in SkipReason:
        if reason in found:
            return Skip(reason, found[reason])
    told_by_hand = settings.get(policy.GENERATED)
    written_by_hand = told_by_hand is not None and told_by_hand.state is not None
    language = _told_language(settings) or _language(path.rpartition("/")[2])
    keep = Keep(language, rules.include_generated or written_by_hand, _told_category(settings))
    return keep if keep.language == TEXT else _in_languages(keep, rules)


_TOLD = {SkipReason.GENERATED: policy.GENERATED, SkipReason.VENDORED: policy.VENDORED}


def _told_language(settings: Mapping[str, Setting]) -> str:
    """Return the language that ``linguist-language`` names, "" for none or one that is not known."""
    setting = settings.get(policy.LANGUAGE)
    named = languages.by_alias(setting.state) if setting is not None and isinstance(setting.state, str) else None
    return named.name if named else ""


def _told_category(settings: Mapping[str, Setting]) -> str:
    """Return what ``linguist-documentation`` makes of a file: docs if it is set, code if it is unset."""
    setting = settings.get(policy.DOCUMENTATION)
    if setting is None or setting.state is None:
        return ""
    return "docs" if setting.is_on else "code"


def _in_languages(keep: Keep, rules: Rules) -> Keep | Skip:
    if rules.languages and keep.language not in rules.languages:
        return Skip(SkipReason.LANGUAGE, f"languages: {', '.join(rules.languages)}")
    return keep


@lru_cache(maxsize=65536)
def _language(name: str) -> str:
    return languages.detect(name.encode(errors="replace").decode()).name


# --- what is in the blob --------------------------------------------------------------------------------------------

_LONG = ((5_000, 500), (1_000, 200))  # nobody writes lines of such a length, if their mean is such, too (characters)
_WEB = ("javascript", "css", "html", "typescript")  # the second pair is for what bundlers write
_RECORDS = {"data": 200_000, "csv": 50_000, "tsv": 50_000, "svg": 10_000}  # characters, by language or category
_NUMBERS = {"code": (75, 20_000), "docs": (75, 20_000), "data": (60, 10_000), "other text": (60, 10_000)}
_CELLS = "jupyter"


def _is_cut_by_cells() -> bool:
    """Say whether notebooks have a cutter of their own, which drops outputs: then their size says nothing."""
    return languages.get(_CELLS).how != "plain"


def _is_long(facts: Facts, language: str) -> bool:
    pairs = _LONG if language in _WEB else _LONG[:1]
    return any(facts.longest_line > line and facts.characters > facts.lines * mean for line, mean in pairs)


def _is_dump(facts: Facts, language: str) -> bool:
    category = languages.get(language).category
    percent, characters = _NUMBERS[category]
    if facts.numbers >= percent and facts.characters > characters:
        return True
    most = _RECORDS.get(language) or _RECORDS.get(category)
    return most is not None and facts.characters > most


@dataclass(frozen=True, slots=True)
class _Content:
    reason: SkipReason
    holds: Callable[[Facts, Keep], bool]
    says: Callable[[Facts], str]
    for_cells: bool = True  # whether notebooks that are cut by cells are judged by it


_CONTENT = (
    _Content(SkipReason.LFS, lambda f, k: f.lfs, lambda f: "its content"),
    _Content(SkipReason.BINARY, lambda f, k: f.binary, lambda f: "its content"),
    _Content(SkipReason.SECRET, lambda f, k: f.key_file, lambda f: "its content: nothing but private keys"),
    _Content(
        SkipReason.GENERATED,
        lambda f, k: bool(f.generated) and not k.even_generated,
        lambda f: f"the comment in its line {f.generated}",
    ),
    _Content(
        SkipReason.MINIFIED,
        lambda f, k: _is_long(f, k.language),
        lambda f: f"{f.characters} characters in {f.lines} lines, the longest of {f.longest_line}",
        for_cells=False,
    ),
    _Content(
        SkipReason.DATA,
        lambda f, k: _is_dump(f, k.language),
        lambda f: f"{f.characters} characters, {f.numbers} % of them in numbers",
        for_cells=False,
    ),
)


def by_facts(keep: Keep, size: int, facts: Facts | None, rules: Rules) -> Keep | Skip | None:
    """Judge a blob that a path offers as ``keep``; None = it must be read to know."""
    if size > rules.max_bytes:
        return Skip(SkipReason.TOO_LARGE, f"max_file_size: {rules.max_bytes}; it has {size} bytes")
    if facts is None or not facts.read:
        return None
    if keep.language == TEXT and (named := languages.by_content(facts.shebang, facts.modeline)):
        keep = replace(keep, language=named.name)
    by_cells = keep.language == _CELLS and _is_cut_by_cells()
    for row in _CONTENT:
        if (row.for_cells or not by_cells) and row.holds(facts, keep):
            return Skip(row.reason, row.says(facts))
    return _in_languages(keep, rules)
