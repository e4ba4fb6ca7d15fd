"""Facts of commits, read from git alone: who changed which paths when. Apart from the snapshot, and immutable.

Merges have no facts: what they bring together counts where it was made. Of a shallow clone's oldest commits git cannot
say what they changed; they have none, either. Nothing that is denied is in a fact, neither as a path nor in a subject.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from flows import git
from flows.paths import to_text
from flows.secrets import mask, mask_name

MAX_TOUCHES = 500  # paths of one commit that are kept; a commit that changes more says nothing of who knows them
MAX_SUBJECT = 200  # characters
MAX_NAME = 200
MAX_CO_AUTHORS = 20
LAST_SECOND = 253_402_300_799  # of the year 9999

Person = tuple[str, str]  # name and e-mail


@dataclass(frozen=True, slots=True)
class Touch:
    """A path that a commit changed; ``old`` is what it was called before, "" if it was not renamed."""

    path: str  # text form of flows/paths.py
    old: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is kept of a commit."""

    sha: str
    at: datetime | None  # of the committer; None where git has no usable date
    author: Person
    co_authors: tuple[Person, ...]
    subject: str  # "" where it names what is denied
    files: int  # allowed ones that it changed
    touches: tuple[Touch, ...]


def read(
    repository: git.Repository, shas: Sequence[str], denies: Callable[[str], bool], named: Callable[[str], bool]
) -> Iterator[Facts]:
    """Yield the facts of some commits; of one that changed nothing but denied paths there is only its id.

    ``denies`` judges a path, ``named`` says whether a text names a denied one.
    """
    tokens = git.read_commits(repository, shas)
    head: list[bytes] | None = None
    changes: _Changes | None = None
    for token in tokens:
        token = token.removeprefix(b"\n")  # stands before the first change of a commit
        if token.startswith(b"\1"):
            if head is not None and changes is not None:
                yield from _facts(head, changes, named)
            head = [token[1:], *(next(tokens, b"") for _ in range(5))]
            changes = _Changes(denies)
        elif token.startswith(b":") and changes is not None:
            status = token.rpartition(b" ")[2]
            first = next(tokens, b"")
            if status[:1] in b"RC":
                changes.add(next(tokens, b""), first if status[:1] == b"R" else b"")
            else:
                changes.add(first, b"")
    if head is not None and changes is not None:
        yield from _facts(head, changes, named)


class _Changes:
    """The allowed paths of one commit, counted, and kept as far as they say something."""

    def __init__(self, denies: Callable[[str], bool]) -> None:
        self._denies = denies
        self.denied: set[str] = set()  # last parts of denied paths
        self.files = 0
        self.touches: list[Touch] = []

    def add(self, path: bytes, old: bytes) -> None:
        """Count a changed path; beyond MAX_TOUCHES only renames are kept, as other commits are found through them."""
        allowed, before = self._allowed(path), self._allowed(old)
        if not allowed:
            return
        self.files += 1
        if self.files <= MAX_TOUCHES or (before and self.files <= 40 * MAX_TOUCHES):
            self.touches.append(Touch(allowed, before))

    def _allowed(self, path: bytes) -> str:
        text = path.decode(errors="surrogateescape")
        if not path:
            return ""
        if self._denies(text):
            if len(self.denied) < MAX_TOUCHES:
                self.denied.add(text.rpartition("/")[2])
            return ""
        return mask_name(to_text(path))


def _facts(head: Sequence[bytes], changes: _Changes, named: Callable[[str], bool]) -> Iterator[Facts]:
    sha, seconds, name, email, subject, co_authors = (part.decode(errors="replace") for part in head)
    if changes.denied and not changes.files:
        yield Facts(sha, None, ("", ""), (), "", 0, ())
        return
    text = mask(subject.replace("\0", ""))[0][:MAX_SUBJECT]
    if named(subject) or any(word in subject for word in changes.denied):
        text = ""
    touches = [t for t in changes.touches if t.old] if changes.files > MAX_TOUCHES else changes.touches
    yield Facts(
        sha,
        _date(seconds),
        _person(name, email),
        tuple(_co_authors(co_authors, (name, email)))[:MAX_CO_AUTHORS],
        text,
        changes.files,
        tuple(touches),
    )


def _date(seconds: str) -> datetime | None:
    """Return a commit's date; 1970 and what no calendar has are no dates."""
    if not seconds.isdigit() or not 86_400 < int(seconds) <= LAST_SECOND:
        return None
    return datetime.fromtimestamp(int(seconds), UTC)


def _person(name: str, email: str) -> Person:
    clean = (" ".join(re.sub(r"[\0-\x1f<>\x7f]", " ", part).split())[:MAX_NAME] for part in (name, email))
    shown, address = clean
    return shown, address


def _co_authors(trailers: str, author: Person) -> Iterator[Person]:
    """Yield each co-author once, and never the author again."""
    seen = {_person(*author)}
    for line in trailers.split("\1"):
        match = re.fullmatch(r"\s*(.*?)\s*<([^<>]*)>.*", line.replace("\n", " "))
        if match and (person := _person(match[1], match[2])) not in seen and any(person):
            seen.add(person)
            yield person


# --- what is denied -------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\s\"'`()\[\]{},;:]+")


def names_denied(denies: Callable[[str], bool], last_parts: Callable[[], Collection[str]]) -> Callable[[str], bool]:
    """Return what says whether a text names a denied path: one that a rule matches, or whose last part it holds.

    ``last_parts`` gives those of the denied paths that are there; it is asked when a word first looks like one.
    """

    def named(text: str) -> bool:
        words = (word.strip(".").lstrip("/") for word in _WORD.findall(text))
        paths = [word for word in words if "/" in word or "." in word]
        return any(word.rpartition("/")[2] in last_parts() or denies(word) for word in paths)

    return named
