"""Who asks, and what they may see: set once a request by the transport, read where the database is opened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

ALL_PROJECTS = "*"


@dataclass(frozen=True, slots=True)
class Access:
    """The name of a token, and the projects whose repositories it may see."""

    name: str
    projects: tuple[str, ...] | None  # None = every repository

    @property
    def notes_project(self) -> str:
        """The project whose case notes it reads and writes: its first, "" for those that belong to none."""
        return self.projects[0] if self.projects else ""


LOCAL = "local"  # stands for whoever can read the database anyway
OWNER = Access(LOCAL, None)
_current: ContextVar[Access | None] = ContextVar("access", default=None)


def local(projects: Sequence[str]) -> Access:
    """Return what a server without tokens shows: some projects, or everything if none is named."""
    return Access(LOCAL, tuple(projects) or None)


def current() -> Access | None:
    """Return whose request this is, None outside of requests."""
    return _current.get()


@contextlib.contextmanager
def granted(access: Access | None) -> Iterator[None]:
    """Let the block, and the threads that it waits for, act for ``access``."""
    token = _current.set(access)
    try:
        yield
    finally:
        _current.reset(token)
