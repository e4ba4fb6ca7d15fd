"""CODEOWNERS of a commit: who owns a path. The last line that matches wins, as on the hosts that read this file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from flows import policy

PLACES = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
MAX_OWNERS = 10  # of a line
_Owners = tuple[str, ...]


@dataclass(slots=True)
class CodeOwners:
    """The lines of one file, newest first where they hold wildcards, else found by name."""

    lines: list[_Owners] = field(default_factory=list)
    anchored: dict[str, int] = field(default_factory=dict)  # number of the line, by path or folder
    named: dict[str, int] = field(default_factory=dict)  # by the name of a file or folder
    wild: list[tuple[int, bool, GitIgnoreSpecPattern]] = field(default_factory=list)

    def of(self, path: str) -> _Owners:
        """Return the owners of a file, as the file writes them: @user, @org/team or an address."""
        best = max(self._by_name(path), default=-1)
        for number, is_flat, pattern in reversed(self.wild):
            if number <= best:
                break
            match = pattern.regex.match(path) if pattern.regex else None
            if match and not (is_flat and match.groupdict().get("ps_d")):
                best = number
        return self.lines[best] if best >= 0 else ()

    def _by_name(self, path: str) -> Iterator[int]:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            folder = "/" if end < len(parts) else ""
            for table, key in ((self.anchored, "/".join(parts[:end])), (self.named, parts[end - 1])):
                yield table.get(key, -1)
                if folder:
                    yield table.get(key + folder, -1)


def parse(content: bytes) -> CodeOwners:
    """Return what a CODEOWNERS file says; lines that it cannot read are passed over, as by the hosts."""
    found = CodeOwners()
    for line in content[: policy.MAX_BYTES].decode(errors="replace").split("\n"):
        words = line.partition(" #")[0].split()
        if not words or words[0][0] in "#![^" or len(line) > policy.MAX_LINE:
            continue
        number = len(found.lines)
        found.lines.append(tuple(word[:200] for word in words[1 : 1 + MAX_OWNERS]))
        glob = words[0].replace("\\", "")
        body = glob.lstrip("/")
        if not any(char in glob for char in "*?["):
            table = found.anchored if "/" in glob.rstrip("/") else found.named
            table[body] = number
        else:
            found.wild += [(number, body.endswith("/*"), pattern) for pattern in policy.compile_glob(glob)]
    return found
