"""Look at a repository that is to join: its default branch, languages, large folders, and what is left out anyway."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from flows import adhoc, fleet, git, policy, select
from flows.config import RepoConfig
from flows.config.edit import Wanted
from flows.errors import SourceError
from flows.names import SkipReason
from flows.paths import to_text
from flows.select import Keep, Rules, Skip
from flows.settings import Settings
from flows.wording import counted

NAMED = 8  # languages and folders that are shown
LARGE = 0.05  # of all bytes: such a folder is worth a look
MANY = 20  # files of a folder of which nothing is indexed: then it is proposed to deny it
_WHOLE = (SkipReason.VENDORED, SkipReason.GENERATED)


@dataclass(slots=True)
class Folder:
    """What lies below a folder of the root."""

    files: int = 0
    bytes: int = 0
    left_out: Counter[SkipReason] = field(default_factory=Counter)


@dataclass(slots=True)
class Seen:
    """What the first file of a repository says about it."""

    commit: git.Commit
    files: int = 0
    bytes: int = 0
    languages: Counter[str] = field(default_factory=Counter)  # bytes
    folders: dict[str, Folder] = field(default_factory=dict)  # of one and of two parts, with a slash behind
    skipped: Counter[SkipReason] = field(default_factory=Counter)

    @property
    def summary(self) -> str:
        """Return one line: how much there is and in which languages."""
        total = sum(self.languages.values()) or 1
        shares = [f"{name} {100 * size // total} %" for name, size in self.languages.most_common(NAMED)]
        return f"{counted(self.files, 'file')}, {size_of(self.bytes)}: {', '.join(shares) or 'nothing to index'}"

    @property
    def dead(self) -> list[tuple[str, SkipReason, int]]:
        """Return the folders of which nothing is indexed, the outermost only."""
        found: list[tuple[str, SkipReason, int]] = []
        for path, folder in sorted(self.folders.items()):
            reason, count = folder.left_out.most_common(1)[0] if folder.left_out else (None, 0)
            inside = any(path.startswith(other) for other, _, _ in found)
            if reason in _WHOLE and folder.files >= MANY and count == folder.files and not inside and _is_plain(path):
                found.append((path, reason, count))
        return found

    @property
    def large(self) -> list[tuple[str, Folder]]:
        """Return the folders of the root that hold much, the largest first."""
        least = max(1, self.bytes * LARGE)
        top = [(path, f) for path, f in self.folders.items() if path.count("/") == 1 and f.bytes >= least]
        return sorted((one for one in top if _is_plain(one[0])), key=lambda one: -one[1].bytes)[:NAMED]


def _is_plain(path: str) -> bool:
    return path.isprintable() and not set(path) & set("*?[]!#\\")


def size_of(size: float) -> str:
    """Return a size as people write it."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def look(settings: Settings, wanted: Wanted) -> Seen:
    """Fetch a repository and judge the files of its default branch by their names.

    Raises:
        SourceError: it cannot be fetched, or has no commit.
    """
    remote = fleet.remote_of(RepoConfig(wanted.name or "-", wanted.url, credentials_env=wanted.credentials_env))
    mirror = remote.mirror(adhoc.mirror_folder(settings, wanted.url), only=fleet.head_of(remote))
    try:
        commit = git.resolve(mirror)
    except SourceError as error:
        raise SourceError("it has no commit on its default branch yet: push one first") from error
    entries = git.list_tree(mirror, commit.sha)
    told = policy.read(mirror, entries)
    sizes = git.sizes(mirror, sorted({entry.oid for entry in entries if entry.mode != "160000"}))
    seen = Seen(commit)
    for entry in entries:
        size = sizes.get(entry.oid, 0)
        seen.files += 1
        seen.bytes += size
        decision = select.by_path(entry, Rules(), told)
        if isinstance(decision, Keep):
            seen.languages[decision.language] += size
        elif isinstance(decision, Skip):
            seen.skipped[decision.reason] += 1
        parts = to_text(entry.path).split("/")[:-1]
        for depth in range(1, min(len(parts), 3) + 1):
            folder = seen.folders.setdefault("/".join(parts[:depth]) + "/", Folder())
            folder.files += 1
            folder.bytes += size
            if isinstance(decision, Skip):
                folder.left_out[decision.reason] += 1
    return seen
