"""The repositories to index, as reviewed files: one YAML a repository in ``repos.d``, and ``_defaults.yaml`` for all.

document   bytes of a file -> values with their line and column; nothing hostile gets further
values     what one name, URL, glob, branch or size may be
model      the keys of a file (pydantic), how the defaults enter, and the JSON schema for editors
explain    what pydantic found -> problems that say where, what and how to fix it
folder     all files of a folder -> a configuration with its source and version, or every problem at once
repo       the result: repositories as they are stored and used

It must not know Postgres, nor read a repository that it configures.
"""

from __future__ import annotations

from pathlib import Path

from flows.config.repo import Configuration, RepoConfig, Version

__all__ = ["Configuration", "RepoConfig", "Version", "load", "load_file"]


def load(folder: Path) -> Configuration:
    """Read every repository file of ``folder``.

    Raises:
        ConfigError: with every problem of every file.
    """
    from flows.config import folder as files  # here, since a sync of stored configuration needs no pydantic

    return files.load(folder)


def load_file(path: Path) -> RepoConfig:
    """Read one repository file, with the ``_defaults.yaml`` beside it.

    Raises:
        ConfigError: with every problem of the two files.
    """
    from flows.config import folder as files

    return files.load_file(path)
