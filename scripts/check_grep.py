"""Compare exact search with ``git grep``: 300 patterns a repository, drawn from its code with a fixed seed.

    python scripts/check_grep.py REPO...    names of indexed repositories whose objects are on this machine

Totals of matching lines and of files must be those of ``git grep --no-index -c`` over the stored text; for files that
are stored as they are, these must be those of ``git grep -c`` at the commit. Exit code 1 if any differ.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from flows import settings
from flows.errors import UsageError
from flows.store import read
from flows.store.pieces import TEXT
from mcp_tools.index import Index
from mcp_tools.search_code import search_code

SEED = 7
LITERALS = 200
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
# From simple to nasty; ①, ② and ③ stand for words of the repository. Only what RE2 and PCRE read alike.
REGEXES = (
    r"\b①\b", r"^①", r"①$", r"^\s*①", r"①\s*\(", r"①\(", r"①|②", r"(①|②|③)", r"(?:①|②)\w*", r"①\w+", r"\w+①", r"①.*②",
    r"①[^②]*\)", r"^\s*(def|fn|func|class|struct)\s+\w+", r"\b①\s*=\s*", r"[A-Z]\w+Error", r"①?②", r"(?i)①",
    r"(?i)\b①\b.*", r"①(②|③)?", r"\w+\.①\(", r"①::\w+", r"->\w+", r"\"①", r"'[^']*①", r"\d+", r"\d{4}",
    r"0x[0-9a-fA-F]+", r"^$", r"^\s*$", r".*", r"a*", r"x?", r"(a|b|c)*", r"^", r"$", r"[^A-Za-z0-9_]{5}",
    r"[^a-z]{8}", r"^.{80,}$", r"^.{120}", r"\t", r"[ \t]+$", r";$", r"\{$", r"^\}", r"\(\)", r"==|!=", r"=>", r"->",
    r"\+\+|--", r"&&", r"\|\|", r"[{}]", r"^#", r"^\s*//", r"//.*①", r"#.*①", r"①\W+②", r"①\s+②", r"(①)\s*,",
    r"(\w+)\s+(\w+)\s+①", r"\b①\w{0,3}\b", r"①{1,2}", r"(?:①){1}", r"[Ww][Ee]", r"[[:upper:]]{3,}",
    r"[[:digit:]]+\.[[:digit:]]+", r"\x41", r"\x{41}\w", r"\101", r"\.\.\.", r"①\.②", r"①_\w+_②", r"[a-f]①",
    r"①[0-9]", r"^(?:①|②)", r"(?:①|②)$", r"(^|\s)①(\s|$)", r"(^|[^\w])①", r"①([^\w]|$)", r"e", r"[aeiou]{3}",
    r"(?:a|e|i)(?:n|r|s)t", r"(x+x+)+y", r"(a+)+$", r"(\w+\s?)+\($", r"(.*)(.*)(.*)①", r"((①|②)|(②|③))", r"(|①)②",
    r"①(|②)", r"(?s)①.②", r"(?m)^①", r"[^\x00-\x7f]", r"①[\d_]", r"\Q①\E", r"\Q①(\E", r"[\w.]+@[\w.]+",
    r"https?://[^\s\"']+", r"(?:①|②|③|e|a)", r"\bif\b.*\b①\b",
)  # fmt: skip
assert len(REGEXES) == 100


@dataclass(frozen=True, slots=True)
class Text:
    """A file that the index shows."""

    path: str
    oid: str
    body: bytes
    is_as_is: bool  # stored as it is in git


def texts(index: Index, repo: str) -> tuple[str, Path, list[Text]]:
    """Return commit, folder of objects and the texts of a repository's default branch."""
    with index.snapshot() as connection:
        (info,) = read.branches(connection, repo)
        rows = connection.execute(
            f"select f.path, f.oid, {TEXT} from file f join blob b using (oid)"
            " where branch_id = %s and cut_id is not null",
            [info.branch_id],
        ).fetchall()
    folder = Path(info.origin)
    batch = "".join(f"{oid}\n" for _, oid, _ in rows).encode()
    raw = subprocess.run(
        ["git", "-C", folder, "cat-file", "--batch"], input=batch, capture_output=True, check=True
    ).stdout
    result, at = [], 0
    for path, oid, body in rows:
        size = int(raw[at : (at := raw.index(b"\n", at) + 1)].split()[2])
        result.append(Text(path, oid, body.encode(), raw[at : at + size] == body.encode()))
        at += size + 1
    return info.commit_sha, folder, result


def patterns(found: list[Text]) -> list[tuple[str, bool]]:
    """Return 300 patterns and whether each is literal."""
    draw = random.Random(SEED)
    lines = [
        line for text in sorted(found, key=lambda t: t.path) for line in text.body.decode().split("\n") if line.strip()
    ]
    words = sorted({word for line in lines for word in _WORD.findall(line)})
    frequent = [word for line in draw.sample(lines, 2_000) for word in _WORD.findall(line)]
    literals: list[str] = [draw.choice(words) for _ in range(70)] + [draw.choice(frequent) for _ in range(60)]
    while len(literals) < LITERALS:
        line = draw.choice(lines).strip()
        start = draw.randrange(len(line))
        literals.append(line[start : start + draw.randint(1, 40)])
    regexes = []
    for template in REGEXES:
        regexes.append(re.sub("[①②③]", lambda _: draw.choice(frequent), template))
    return [(text, True) for text in literals if text] + [(text, False) for text in regexes]


def git_grep(folder: Path, pattern: str, literal: bool, where: str) -> dict[str, int]:
    """Return the number of matching lines by file; ``where`` is a commit, or --no-index for the files in ``folder``.

    What PCRE gives up on is asked for as a POSIX expression.
    """
    for mode in ["-F"] if literal else ["-P", "-E"]:
        options = ["--text", "--no-color", "-z", "-c", mode, "-e", pattern]
        options = [where, *options] if where == "--no-index" else [*options, where]
        done = subprocess.run(
            ["git", "-C", folder, "grep", *options],
            capture_output=True,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            check=False,
        )
        if done.returncode <= 1 and not done.stderr:
            lines = done.stdout.decode(errors="surrogateescape").split("\n")
            return {path: int(count) for path, count in (line.rsplit("\0", 1) for line in lines if "\0" in line)}
    raise RuntimeError(done.stderr.decode(errors="replace").strip())


def check(index: Index, repo: str) -> int:
    """Compare all patterns on a repository and return how many differ."""
    commit, folder, found = texts(index, repo)
    wrong = compared = refused = inexact = 0
    with tempfile.TemporaryDirectory() as name:
        stored = Path(name)
        for number, text in enumerate(found):
            (stored / f"{number:06}").write_bytes(text.body)
        for pattern, literal in patterns(found):
            try:
                expected = git_grep(stored, pattern, literal, "--no-index")
            except RuntimeError as error:
                print(f"  git refuses {pattern!r}: {error}")
                refused += 1
                continue
            try:
                totals = search_code(index, pattern, repo=repo, literal=literal).totals
            except UsageError as error:
                print(f"  {pattern!r}: {error}")
                wrong += 1
                continue
            compared += 1
            inexact += not totals.exact
            if totals.exact and (totals.matches, totals.files) != (sum(expected.values()), len(expected)):
                print(f"  {pattern!r}: {totals}, git: {sum(expected.values())} in {len(expected)}")
                wrong += 1
            at_commit = git_grep(folder, pattern, literal, commit)
            for number, text in enumerate(found):
                if text.is_as_is and at_commit.get(f"{commit}:{text.path}", 0) != expected.get(f"{number:06}", 0):
                    print(f"  {pattern!r}: differs between the stored text of {text.path} and the commit")
                    wrong += 1
    size, as_is = sum(len(text.body) for text in found), sum(text.is_as_is for text in found)
    print(
        f"{repo}: {len(found)} files, {size / 1e6:.1f} MB; {compared} patterns compared with git grep --no-index, and "
        f"the {as_is} files stored as they are with git grep at the commit; {wrong} differ, {inexact} beyond the "
        f"budget, {refused} refused by git"
    )
    return wrong + inexact


def main() -> int:
    """Check the repositories named on the command line."""
    with Index(settings.load()) as index:
        return int(sum(check(index, repo) for repo in sys.argv[1:]) > 0)


if __name__ == "__main__":
    sys.exit(main())
