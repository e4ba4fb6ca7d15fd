"""Configured repositories, the defaults applied: what the sync uses and Postgres keeps. Imports no pydantic or YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from flows.errors import Problem, SchemaMismatch
from flows.select import Rules

FORMAT = 1  # of the JSON; raised only when an older program would misread it: new fields alone do not raise it


@dataclass(frozen=True, slots=True)
class RepoConfig:
    """What one repository file and the defaults say together."""

    name: str
    url: str
    branches: tuple[str, ...] = ()  # names and globs, ``!`` excludes; () = the default branch
    rules: Rules = field(default_factory=Rules)
    projects: tuple[str, ...] = ()
    owner: str = ""
    credentials_env: str = ""  # the NAME of an environment variable

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a JSON column; equal configurations give equal values."""
        return {
            "format": FORMAT,
            "name": self.name,
            "url": self.url,
            "branches": list(self.branches),
            "allow": list(self.rules.allow),
            "deny": list(self.rules.deny),
            "max_bytes": self.rules.max_bytes,
            "projects": list(self.projects),
            "owner": self.owner,
            "languages": list(self.rules.languages),
            "credentials_env": self.credentials_env,
            "include_generated": self.rules.include_generated,
            "include_vendored": self.rules.include_vendored,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RepoConfig:
        """Return what :meth:`to_json` gave, of this or an older version; unknown fields are passed over.

        Raises:
            SchemaMismatch: a newer program wrote it in a form that this one would misread.
        """
        if value.get("format", 1) > FORMAT:
            raise SchemaMismatch(
                f"the configuration of {value.get('name', 'a repository')} was published by a newer gitstrata: "
                "upgrade this one"
            )
        rules = Rules(
            allow=tuple(value.get("allow", ())),
            deny=tuple(value.get("deny", ())),
            max_bytes=value.get("max_bytes", Rules.max_bytes),
            languages=tuple(value.get("languages", ())),
            include_generated=value.get("include_generated", Rules.include_generated),
            include_vendored=value.get("include_vendored", Rules.include_vendored),
        )
        lists: dict[str, Any] = {key: tuple(value.get(key, ())) for key in ("branches", "projects")}
        plain = ("owner", "credentials_env")
        return cls(value["name"], value["url"], rules=rules, **lists, **{k: value[k] for k in plain if k in value})


@dataclass(frozen=True, slots=True)
class Version:
    """How new a configuration is."""

    sha: str  # the commit whose files these are; "" = none: changed since, or outside git
    committed_at: datetime  # UTC; without a commit, when the files were loaded


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every repository of a folder, sorted by name."""

    source: str  # "origin:folder" of the git repository that holds the folder, else the folder's absolute path
    version: Version
    repos: tuple[RepoConfig, ...]
    hints: tuple[Problem, ...] = ()  # what is right but looks like a slip
