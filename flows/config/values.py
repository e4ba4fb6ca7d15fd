"""What one value of a repository file may be; each check returns the value or raises a sentence with the fix.

A sentence never contains a URL or the value of ``credentials_env``: either may hold a secret.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable

import pathspec
from pydantic_core import PydanticCustomError

from chunkers import languages
from flows import urls
from flows.errors import UsageError

NAME = r"(?!-)[A-Za-z0-9._-]+(/(?!-)[A-Za-z0-9._-]+)*"
PROJECT = r"[A-Za-z0-9][A-Za-z0-9._-]*"
VARIABLE = r"[A-Z_][A-Z0-9_]*"
SIZE = r"([0-9]+)(?:\.([0-9]{1,3}))? ?([kKmMgG]?i?[bB]?)"
MIN_FILE, MAX_FILE = 1_000, 100_000_000
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_ALLOWED = "write letters, digits and . _ - in parts separated by /, none of which begins with -"
_SCHEMES = "an https://, ssh:// or file:// URL, user@host:path or an absolute path"


def wrong(sentence: str) -> PydanticCustomError:
    """Return the error of a check; ``sentence`` follows the name of the key."""
    return PydanticCustomError("wrong", "{sentence}", {"sentence": sentence})


def show(text: str) -> str:
    """Return ``text`` quoted on one line, cut if long, without credentials and control characters."""
    if re.search(":/|:.*@", text):
        return "'***'"
    text = text if len(text) <= 60 else text[:57] + "..."
    quoted = text.replace("'", "''")  # as YAML would have it, to be copied into the file
    return f"'{quoted}'" if text.isprintable() else repr(text)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a question that names the nearest known word, "" if none is near."""
    found = difflib.get_close_matches(word.lower(), list(known), 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def check_name(name: str) -> str:
    """Check the name of a repository."""
    if not 1 <= len(name) <= 200:
        raise wrong("must have 1 to 200 characters")
    if ".." in name or name.startswith(".") or "." in name.split("/"):
        raise wrong(f"{show(name)} begins with '.' or contains '..': {_ALLOWED}, for example {_as_name(name)!r}")
    if not re.fullmatch(NAME, name):
        raise wrong(f"{show(name)} cannot name a repository: {_ALLOWED}, for example {_as_name(name)!r}")
    return name


def _as_name(name: str) -> str:
    """Return a valid name that resembles ``name``."""
    if "@" in name or ":" in name:
        return "owner/project"  # a URL: it may hold a secret
    parts = (re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") for part in name[:60].split("/"))
    return "/".join(part for part in parts if part) or "owner/project"


def check_url(url: str) -> str:
    """Check that git may fetch ``url`` and that it holds no secret."""
    scheme, _, rest = url.partition("://") if "://" in url else ("", "", url)
    scheme = scheme.lower()
    if _has_secret(scheme, rest):
        raise wrong(
            "must not contain a user name, token or password: use a git credential helper, or name an environment "
            "variable in `credentials_env`"
        )
    if scheme in ("http", "https") and re.search("[?#]", rest):
        raise wrong("must not have a part after ? or #, where tokens travel: end it with the repository's path")
    if scheme == "http":
        raise wrong("is not encrypted: write https:// instead of http://")
    if any(part.startswith("-") for part in re.split("[/:]", rest)[0].split("@")):
        raise wrong("has a host that git would take as an option: check the host's name")
    return _fetchable(url, scheme)


def _has_secret(scheme: str, rest: str) -> bool:
    """Say whether a URL without its ``scheme://`` has more than the user's name of ssh."""
    if not scheme:
        return bool(re.match("[^/]*:[^/]*@", rest))
    authority, _, path = rest.partition("/")
    user, at, _ = authority.rpartition("@")
    if at:
        return scheme != "ssh" or ":" in user
    port = authority.partition(":")[2]
    return "@" in path and bool(port) and not port.isdigit()  # a password with a slash in it


def _fetchable(url: str, scheme: str) -> str:
    try:
        urls.check_url(url)
    except UsageError as error:
        raise wrong(f"cannot be fetched: write {_SCHEMES}, without spaces") from error
    is_path = url.startswith("/") or (scheme == "file" and url[7:].startswith("/"))
    if not scheme and not is_path and not re.match(r"[^/:]+:[^:]", url):
        example = f"https://github.com/{url}.git" if re.fullmatch(r"[\w-]+/[\w.-]+", url) else "https://host/owner/name"
        raise wrong(f"must be {_SCHEMES}: write for example {urls.redact(example)}")
    if scheme == "file" and not is_path:
        raise wrong("must name an absolute path: write file:///path/to/repository")
    return url


def check_glob(glob: str) -> str:
    """Check that a gitignore-style glob is valid and can match a path."""
    if not glob.strip() or glob.strip() == "/":
        raise wrong(f"{show(glob)} matches nothing: remove it, or write '*' for everything")
    if glob.startswith("#"):
        escaped = "\\" + glob
        raise wrong(f"{show(glob)} is a comment in gitignore syntax: write {show(escaped)}")
    parts = glob.removeprefix("!").removeprefix("/").removesuffix("/").split("/")
    if {".", "..", ""} & set(parts):
        path = "/" + "/".join(part for part in parts if part not in (".", "..", ""))
        raise wrong(f"{show(glob)} matches nothing, since paths begin at the repository's root: write {show(path)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # re warns of [[:class:]], which pathspec does not know
            compiled = pathspec.GitIgnoreSpec.from_lines([glob], backend="simple").patterns
    except (ValueError, re.error, FutureWarning) as error:
        raise wrong(f"{show(glob)} is not a valid glob: check ranges as in [a-z], and a '\\' or '!' alone") from error
    if all(pattern.include is None for pattern in compiled):
        raise wrong(f"{show(glob)} matches nothing: close the bracket, or write \\[ for the character itself")
    return glob


def check_allow(globs: list[str]) -> list[str]:
    """Check that an allow list lets something in."""
    if not globs:
        raise wrong(
            "is empty and would let nothing in: remove the line to let everything in (or write ['*'] where "
            "_defaults.yaml has a list); to index nothing, remove the file"
        )
    if all(glob.startswith("!") for glob in globs):
        raise wrong("only excludes, so nothing would be let in: begin the list with '*', or use `deny`")
    return globs


def check_branch(branch: str) -> str:
    """Check the name or glob of a branch."""
    name = branch.removeprefix("!")
    if name.startswith("refs/"):
        short = name.removeprefix("refs/heads/").removeprefix("refs/tags/")
        raise wrong(f"{show(branch)} must be the short name: write {show(short)}")
    bad = re.search(r"[\s~^:\\\x00-\x20\x7f]|\.\.|@\{|//|^[-/]|[/.]$|\.lock$|^$", name)
    if bad or name.count("[") != name.count("]"):
        what = f"because of {bad.group()!r}" if bad and bad.group() else "since it is empty or a bracket is open"
        raise wrong(f"{show(branch)} cannot name a branch, {what}: write a name or a glob such as 'release/*'")
    return branch


def check_branches(branches: list[str]) -> list[str]:
    """Check that a list of branches selects something."""
    if branches and all(branch.startswith("!") for branch in branches):
        raise wrong("only excludes, so no branch is left: add the branches to index, for example '*'")
    return branches


def check_language(name: str) -> str:
    """Check that ``name`` is a language that filters know."""
    if name not in languages.names():
        hint = nearest(name, languages.names()) or ": write for example 'python'"
        raise wrong(f"{show(name)} is not a known language{hint}")
    return name


def check_project(name: str) -> str:
    """Check the name of a project."""
    if not re.fullmatch(PROJECT, name) or len(name) > 100:
        raise wrong(f"{show(name)} must be 1 to 100 letters, digits and . _ -: write for example {_as_name(name)!r}")
    return name


def check_owner(owner: str) -> str:
    """Check the name of the people who answer for a repository."""
    if not 1 <= len(owner.strip()) <= 200:
        raise wrong("must have 1 to 200 characters: name a team or person, or remove the line")
    return owner.strip()


def check_variable(name: str) -> str:
    """Check the name of an environment variable."""
    if not re.fullmatch(VARIABLE, name) or len(name) > 100:
        raise wrong("must be the name of an environment variable (A-Z, 0-9 and _), never the secret itself")
    return name


def check_size(size: object) -> int:
    """Return a size in bytes, given as a number of bytes or as text such as "500 kB" or "1MiB"."""
    if isinstance(size, bool) or not isinstance(size, int | str):
        raise wrong("must be a size: write for example 500 kB, 1MB or a number of bytes")
    found = re.fullmatch(SIZE, str(size))
    unit = found.group(3).lower().removesuffix("b") if found else None
    if not found or unit not in _UNITS or len(found.group(1)) > 12:
        raise wrong(f"{show(str(size))} is not a size: write for example 500 kB, 1MB or a number of bytes")
    value = int(found.group(1)) * _UNITS[unit] + int(float(f"0.{found.group(2) or 0}") * _UNITS[unit])
    if not MIN_FILE <= value <= MAX_FILE:
        raise wrong(f"{show(str(size))} is out of bounds: write a size from 1 kB to 100 MB")
    return value
