"""The repositories to index, as reviewed files: one YAML a repository in ``repos.d``, and ``_defaults.yaml`` for all.

document   bytes of a file -> values with their line and column; nothing hostile gets further
values     what one name, URL, glob, branch or size may be
model      the keys of a file (pydantic) and the JSON schema that is generated from them
explain    what pydantic found -> problems that say where, what and how to fix it
repo       one repository with the defaults applied, as it is stored and used
folder     all files of a folder -> a configuration with its source and version, or every problem at once

It must not know Postgres, nor read a repository that it configures.
"""

from flows.config.folder import Configuration, Version, load, load_file
from flows.config.repo import RepoConfig

__all__ = ["Configuration", "RepoConfig", "Version", "load", "load_file"]
