"""Where the next page of an answer begins: one opaque word, made of a position, a request and a state of the index."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass

from flows.errors import UsageError

MAX_CHARS = 200
MOVED = "the index moved since the first page: rows may repeat or be missing"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next page begins, of which request and over which state of the index."""

    offset: int
    request: str
    state: str

    def encode(self) -> str:
        """Return the cursor as an answer gives it."""
        raw = json.dumps([self.offset, self.request, self.state]).encode()
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """Read what an answer gave; raises UsageError for anything else."""
        try:
            if len(text) > MAX_CHARS:
                raise ValueError
            offset, request, state = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            if type(offset) is not int or offset < 0:
                raise ValueError
            return cls(offset, str(request), str(state))
        except (ValueError, TypeError) as error:
            raise UsageError("this cursor is not one of ours: leave it out to start at the first row") from error


def start(text: str, request: str, state: str) -> tuple[int, str]:
    """Return the first row of the page that ``text`` asks for, and a note if the index moved since.

    Raises:
        UsageError: a cursor that is not ours, or of another request.
    """
    if not text:
        return 0, ""
    given = Cursor.decode(text)
    if given.request != request:
        raise UsageError("this cursor belongs to another query or other filters: repeat them, or leave the cursor out")
    return given.offset, "" if given.state == state else MOVED


def digest(value: object) -> str:
    """Return what stands in a cursor for a request or a state: anything that JSON can hold."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=6).hexdigest()
