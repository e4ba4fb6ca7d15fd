"""Bearer tokens: a file that says who they are and which projects they see. It holds hashes, never a token.

A token is 32 random bytes: its plain SHA-256 cannot be guessed back, and needs no salt.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from flows.config import document
from flows.config.values import show
from flows.errors import ConfigError, Problem, UsageError
from mcp_tools.access import ALL_PROJECTS, Access

log = logging.getLogger("gitstrata")

PREFIX = "gst_"  # so that scanners for secrets, and people, see what it is
NEVER = "never"
LONGEST = 200  # characters of what is hashed at all
_NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}"
_DURATION = re.compile(r"([1-9][0-9]{0,4})([dhw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


@dataclass(frozen=True, slots=True)
class Token:
    """Who has a token, by its hash."""

    name: str
    sha256: bytes
    projects: tuple[str, ...]
    expires: datetime | None

    @property
    def access(self) -> Access:
        """What its holder may see."""
        return Access(self.name, None if ALL_PROJECTS in self.projects else self.projects)

    def is_valid(self, now: datetime) -> bool:
        return self.expires is None or now < self.expires


def _moment(text: str) -> str:
    parse_expiry(text)
    return text


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(pattern=f"^{_NAME}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    projects: Annotated[list[Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*|\*)$")]], Field(min_length=1)]
    expires: Annotated[str, AfterValidator(_moment)]

    def token(self) -> Token:
        return Token(self.name, bytes.fromhex(self.sha256), tuple(self.projects), parse_expiry(self.expires))


def parse_expiry(text: str) -> datetime | None:
    """Return the moment after which a token is not valid: a day means its end in UTC, ``never`` None."""
    if text == NEVER:
        return None
    try:
        if len(text) == 10:
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{show(text)} is no date: write YYYY-MM-DD, or {NEVER}") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read(path: Path) -> list[Token]:
    """Return the tokens of a file.

    Raises:
        ConfigError: with every problem of the file.
        UsageError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the tokens file {path} cannot be read: {error.strerror or error}") from error
    root, problems = document.parse(data, str(path))
    if problems:
        raise ConfigError(problems)
    rows = root.value.get("tokens") if root and isinstance(root.value, dict) else None
    if root is None or rows is None or not isinstance(rows.value, list) or set(root.value) != {"tokens"}:  # type: ignore[arg-type]
        raise ConfigError([Problem(str(path), 1, 1, "the file is one key, `tokens:`, with a list of rows")])
    tokens = []
    for node in rows.value:
        try:
            tokens.append(_Row.model_validate(node.plain()).token())
        except ValidationError as error:
            problems += [Problem(str(path), node.line, node.column, _explain(detail)) for detail in error.errors()]
    for number, token in enumerate(tokens):
        if any(token.name == other.name or token.sha256 == other.sha256 for other in tokens[:number]):
            problems.append(Problem(str(path), 0, 0, f"two rows have the name or the hash of {token.name}: keep one"))
    if problems:
        raise ConfigError(problems)
    return tokens


def _explain(detail: Any) -> str:
    key = ".".join(map(str, detail["loc"])) or "row"
    if detail["type"] == "value_error":
        return f"`{key}`: {detail['ctx']['error']}"
    if detail["type"] == "string_pattern_mismatch":
        allowed = "64 hex digits" if key == "sha256" else "letters, digits and . _ -, the first no sign"
        return f"`{key}` is not what it must be: {allowed}"
    if detail["type"] == "extra_forbidden":
        return f"unknown key {show(key)}: the keys are {', '.join(_Row.model_fields)}"
    return f"`{key}`: {str(detail['msg']).lower()}"


def is_open_to_others(path: Path) -> bool:
    """Say whether users other than the owner and the group may read or change the file."""
    return bool(path.stat().st_mode & 0o006)


class TokensFile:
    """The tokens of a file as it is now: a changed file counts from the next request on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""  # why what is in the file does not count, without the file's name: probes show it
        self._lock = threading.Lock()
        self._tokens: Sequence[Token] = read(path)
        self._seen = self._stamp()

    def find(self, token: str) -> Token | None:
        """Return whose token this is, None if it is nobody's or has expired. Takes as long for any token."""
        digest = hashlib.sha256(token[:LONGEST].encode(errors="replace")).digest()
        found = None
        for known in self._current():
            if hmac.compare_digest(known.sha256, digest):
                found = known
        return found if found and len(token) <= LONGEST and found.is_valid(datetime.now(UTC)) else None

    @property
    def is_lost(self) -> bool:
        """Whether nobody can be let in, since the file is gone."""
        return bool(self.problem) and not self._tokens

    def refresh(self) -> None:
        """Look at the file now."""
        self._current()

    def _current(self) -> Sequence[Token]:
        with self._lock:
            stamp = self._stamp()
            if stamp != self._seen:
                self._reload(stamp)
            return self._tokens

    def _reload(self, stamp: object) -> None:
        """Take what the file says now; while it is wrong what it said before counts, once it is gone nothing does."""
        try:
            self._tokens, self.problem = read(self.path), ""
            log.warning("tokens file read again: %d tokens", len(self._tokens))
        except ConfigError as error:
            self.problem = "the tokens file is wrong, the tokens before its change are still in force"
            log.error("%s: %s", self.problem, error)
        except UsageError as error:
            self._tokens, self.problem = [], "the tokens file cannot be read, no token is valid"
            log.error("%s: %s", self.problem, error)
        self._seen = stamp

    def _stamp(self) -> object:
        try:
            status = self.path.stat()
        except OSError:
            return None
        # A file that has just been written may be written again within the clock's tick: look at it until it has aged.
        fresh = time.time_ns() - status.st_mtime_ns < 100_000_000
        return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, time.monotonic_ns() if fresh else 0)


def new(name: str, projects: Sequence[str], expires: str) -> tuple[str, dict[str, Any]]:
    """Return a new token, and the fields of its row in the tokens file.

    Raises:
        UsageError: a bad name, project or expiry.
    """
    token = PREFIX + secrets.token_urlsafe(32)
    row: dict[str, Any] = {
        "name": name,
        "sha256": hashlib.sha256(token.encode()).hexdigest(),
        "projects": list(projects),
        "expires": _until(expires),
    }
    try:
        _Row.model_validate(row)
    except ValidationError as error:
        raise UsageError("; ".join(_explain(detail) for detail in error.errors())) from error
    return token, row


def as_yaml(row: dict[str, Any]) -> str:
    """Return a row as the tokens file has it."""
    shown = ", ".join(f'"{project}"' if project == ALL_PROJECTS else project for project in row["projects"])
    return "  - name: {name}\n    sha256: {sha256}\n    projects: [{shown}]\n    expires: {expires}\n".format(
        **row, shown=shown
    )


def _until(expires: str) -> str:
    """Return an expiry as the file has it; a duration such as 90d counts from now."""
    if found := _DURATION.fullmatch(expires):
        until = datetime.now(UTC) + timedelta(hours=int(found[1]) * _HOURS[found[2]])
        return until.strftime("%Y-%m-%d" if found[2] != "h" else "%Y-%m-%dT%H:%M:%SZ")
    try:
        parse_expiry(expires)
    except ValueError as error:
        raise UsageError(f"--expires {show(expires)}: write 90d, 12h, 4w, a day YYYY-MM-DD, or {NEVER}") from error
    return expires
