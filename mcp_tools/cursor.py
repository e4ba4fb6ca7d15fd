"""Where the next page of an answer begins, as a string that a client hands back."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass

from flows.errors import UsageError
from mcp_tools.scope import Scope
from mcp_tools.surface import argument

MAX_CURSOR = 200  # characters


@dataclass(frozen=True, slots=True)
class Cursor:
    """The next row, of which request and over which state of the index."""

    offset: int
    request: str
    state: str

    @classmethod
    def at(cls, offset: int, request: object, where: Scope) -> Cursor:
        """Return the cursor of a row; ``request`` is what was asked for, besides the scope."""
        return cls(offset, _request(request, where), _state(where))

    @classmethod
    def start(cls, text: str, request: object, where: Scope) -> tuple[int, str]:
        """Return the first row of the page, and a note if the index moved since the cursor was made.

        Raises:
            UsageError: it is no cursor, or that of another request.
        """
        if not text:
            return 0, ""
        given = cls.decode(text)
        if given.request != _request(request, where):
            raise UsageError(
                f"this cursor belongs to another query or other filters: repeat them, or leave {argument('cursor')} out"
            )
        same = given.state == _state(where)
        return given.offset, "" if same else "the index moved since the first page: rows may repeat or be missing"

    def encode(self) -> str:
        """Return the string."""
        raw = json.dumps([self.offset, self.request, self.state]).encode()
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """Read the string; raises UsageError for one that is none of ours."""
        try:
            if len(text) > MAX_CURSOR:
                raise ValueError
            offset, request, state = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            if type(offset) is not int or offset < 0:
                raise ValueError
            return cls(offset, str(request), str(state))
        except (ValueError, TypeError) as error:
            raise UsageError("this cursor is not one of ours: leave it out to start at the first row") from error


def _request(request: object, where: Scope) -> str:
    filters = where.filters
    narrowed = [filters.languages, filters.include, filters.exclude, filters.level]
    return _digest([request, narrowed, [[info.repo, info.name] for info in where.branches]])


def _state(where: Scope) -> str:
    return _digest([[info.branch_id, info.generation] for info in where.branches])


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=6).hexdigest()
