"""The errors that reach a user. Each message is one line: what happened, to what, and what to do next.

What was typed, in a command, a variable or a file, is wrong: exit code 2. It is right and the work failed: 1.

GitstrataError                 exit code 1
├── UsageError                 exit code 2: the request or the configuration is wrong
│   ├── ConfigError            files of repos.d are wrong; one more line for each problem
│   └── SchemaMismatch         this program and the database do not fit each other
├── SourceError                a repository, revision or remote cannot be read
│   └── NoSuchSource           exit code 2: the folder, repository or revision that was named is not there
├── DatabaseError              Postgres cannot be reached, started or used
│   ├── Unreachable            no connection can be made
│   └── Moved                  the branch was published by another run meanwhile
├── EmbedderError              the embedding model or provider failed
│   └── NoSuchModel            exit code 2: the folder that was named holds no model
├── Busy                       another run holds the branch, or changes the model
└── Interrupted                the user stopped the run (exit code 130)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class GitstrataError(Exception):
    """Base of everything this program reports to a user in one line."""

    exit_code = 1


class UsageError(GitstrataError):
    """The request or the configuration is wrong; running it again unchanged cannot help."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at one place of a file; ``str()`` is the line that editors and compilers understand."""

    file: str
    line: int  # from 1; 0 = the file as a whole
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}" if self.line else f"{self.file}: {self.message}"


class ConfigError(UsageError):
    """Files of the configuration are wrong: holds every problem that was found."""

    SHOWN = 100  # in the text; ``problems`` holds all

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = f"{len(self.problems)} problem{'' if len(self.problems) == 1 else 's'} in the configuration"
        rest = len(self.problems) - self.SHOWN
        shown = [count, *map(str, self.problems[: self.SHOWN]), *([f"... and {rest} more"] if rest > 0 else [])]
        super().__init__("\n".join(shown))


class SchemaMismatch(UsageError):
    """The database schema is newer or older than this program, or its model is not the one that can be loaded here."""


class SourceError(GitstrataError):
    """A repository, a revision or a remote cannot be read."""


class NoSuchSource(SourceError):
    """What was named is no folder, no repository or no revision: a wrong request, like UsageError."""

    exit_code = UsageError.exit_code


class DatabaseError(GitstrataError):
    """Postgres cannot be reached, started or used."""


class Unreachable(DatabaseError):
    """No connection to Postgres can be made; trying again later may help."""


class EmbedderError(GitstrataError):
    """The embedding model cannot be loaded, or it failed or returned unusable vectors."""


class NoSuchModel(EmbedderError):
    """A setting names a folder that holds no model: a wrong request, like UsageError."""

    exit_code = UsageError.exit_code


class Moved(DatabaseError):
    """Another run published the branch while this one was at work; starting again helps."""


class Busy(GitstrataError):
    """Another run works on the same branch of the same repository, or on the model of the index."""


class Interrupted(GitstrataError):
    """The user stopped the run."""

    exit_code = 130
