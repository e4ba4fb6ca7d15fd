"""URLs of repositories: which may be fetched, and the one form that all spellings of a remote share. Runs nothing."""

from __future__ import annotations

import re
from pathlib import Path

from flows.errors import UsageError
from flows.secrets import mask

FETCH_PROTOCOLS = ("https", "ssh", "file")
_SCP = re.compile(r"^(?:[^/]*@)?([\w.-]+):(?!//)(.+)$")
_URL = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*)://")

# A user's name alone is no secret where keys or passwords are asked for apart; over https it may be a token.
_NAMED_USERS = frozenset({"ssh", "git", "git+ssh", "postgresql", "postgres"})
_PORT = r"(?!\d{1,5}(?:[\s/?#'\":,;)]|$)|\*)"
_SECRET_NAMES = (
    r"[\w.-]*(?:token|secret|passw|pwd|passphrase|api_?key|access_?key|signature|credential)[\w.-]*|key|sig|auth"
)
# A password ends at the last @ of its word; one with a space in it, at the first @ after it; without any, one was lost.
_PASSWORD = re.compile(rf"([a-zA-Z][\w+.-]*)?://([^\s/?#:@\[\]]*):{_PORT}(?:(\S*@|.*?@(?:\S*@)?)|[^\s/'\"]+)")
_USER = re.compile(r"([a-zA-Z][\w+.-]*)?://[^\s/?#:]+@")
_CREDENTIALS = (
    (re.compile(r"(?i)\b(https?|ssh|git|file|ftp)(:/?(?!/)|(?<!:)//)[^\s@]*@"), r"\1\2***@"),  # of a misspelt ://
    (re.compile(r"[\w.+%-]*:(?!\*\*\*@)[^\s/@]+@"), "***@"),
    (re.compile(rf"(?i)([?&#;](?:{_SECRET_NAMES})=)[^\s&#]+?(?=['\"),.:;]*(?:[\s&#]|$))"), r"\1***"),
)


def is_url(source: str) -> bool:
    """Say whether ``source`` names a remote rather than a folder."""
    return bool(_URL.match(source)) or "::" in source or (bool(_SCP.match(source)) and not Path(source).exists())


def check_url(url: str) -> str:
    """Return ``url`` if it may be fetched.

    Raises:
        UsageError: another protocol than https, ssh or file, or something that git would take as an option.
    """
    scheme = _URL.match(url)
    name = scheme.group(1).lower() if scheme else "ssh"
    shown = redact(" ".join(url.split()))
    if url.startswith("-") or "::" in url or name not in FETCH_PROTOCOLS or any(c.isspace() for c in url):
        raise UsageError(f"{shown!r} cannot be fetched: use an https://, ssh:// or file:// URL, or user@host:path")
    rest = url[scheme.end() :] if scheme else url
    if name != "file" and ("?" in rest or "#" in rest):
        raise UsageError(f"{shown!r} cannot be fetched: a repository's URL has no ? or # in it")
    if not scheme and ":" in rest.rpartition("@")[0]:
        raise UsageError(f"{shown!r} cannot be fetched: leave the password out and use an ssh key")
    return url


def redact(text: str) -> str:
    """Replace the credentials of every URL in ``text``, and nothing else, by ``***``."""
    text = _USER.sub(_without_user, _PASSWORD.sub(_without_password, text))
    for pattern, shown in _CREDENTIALS:
        text = pattern.sub(shown, text)
    return mask(text)[0]  # a token may stand anywhere, as the host or in the path


def _without_password(match: re.Match[str]) -> str:
    scheme, user, secret = match.group(1) or "", match.group(2), match.group(3)
    is_name = scheme.lower() in _NAMED_USERS or secret is None
    return f"{scheme}://{f'{user}:***' if is_name else '***'}{'' if secret is None else '@'}"


def _without_user(match: re.Match[str]) -> str:
    scheme = match.group(1) or ""
    return match.group() if scheme.lower() in _NAMED_USERS else f"{scheme}://***@"


def canonical_url(url: str, base: Path | None = None) -> str:
    """Return one form for all spellings of a remote: ``host/owner/name``, or an absolute path for a local one."""
    scheme = _URL.match(url)
    if scheme and scheme.group(1).lower() != "file":
        authority, _, path = url[scheme.end() :].partition("/")
        host = authority.rpartition("@")[2].split(":", 1)[0]
    elif not scheme and (match := _SCP.match(url)) and not ((base or Path()) / url).exists():
        host, path = match.groups()
    else:
        local = Path(url[scheme.end() :] if scheme else url)
        return str((base / local).resolve() if base else local.absolute())
    path = re.split(r"[?#]", path, maxsplit=1)[0]  # what stands behind them may be a token
    return f"{host.lower()}/{path.strip('/').removesuffix('.git')}"


def short_name(origin: str) -> str:
    """Return the name a repository gets when nobody gave one: ``owner/name`` of a remote, the folder of a path."""
    parts = [part for part in origin.split("/") if part]
    if origin.startswith("/"):
        name = parts[-1] if parts else "root"
        return (parts[-2] if name == ".git" and len(parts) > 1 else name).removesuffix(".git") or "repository"
    return "/".join(parts[1:][-2:]) or parts[0]
