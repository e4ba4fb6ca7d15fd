"""Look at what repository files point to: do the remotes answer, do branches and globs match anything there?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from flows import adhoc, fleet, git, policy, select
from flows.config import Configuration, RepoConfig, places
from flows.config.values import show
from flows.errors import GitstrataError, Problem
from flows.names import BACKEND
from flows.select import Denied, Rules
from flows.settings import Settings

AT_ONCE = 8  # remotes that are asked at the same time


@dataclass(slots=True)
class Probe:
    """What was found: ``problems`` are remotes that do not answer, ``warnings`` are rules that match nothing."""

    settings: Settings
    folder: Path
    configuration: Configuration
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def ask(self, *, deep: bool) -> None:
        """Ask every remote; with ``deep``, fetch each repository and look at the files of its default branch."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda repo: self._answer(repo, deep=deep), self.configuration.repos))
        for problems, warnings in answers:
            self.problems += problems
            self.warnings += warnings

    def _answer(self, repo: RepoConfig, *, deep: bool) -> tuple[list[Problem], list[Problem]]:
        try:
            remote = fleet.remote_of(repo)
            names = [name for name, _ in fleet.names_of(remote.refs())]
            warnings = list(self._branches(repo, names))
            if deep:
                mirror = remote.mirror(adhoc.mirror_folder(self.settings, repo.url), only=fleet.head_of(remote))
                warnings += self._globs(repo, mirror)
        except GitstrataError as error:
            return [self._at(repo, "url", "", str(error))], []
        return [], warnings

    def _branches(self, repo: RepoConfig, names: list[str]) -> Iterator[Problem]:
        if not names:
            yield self._at(repo, "url", "", "the repository has no branch yet: nothing will be indexed")
        for pattern in repo.branches:
            plain = pattern.removeprefix("!")
            if names and not any(fleet.matches(name, (plain,)) for name in names):
                yield self._at(repo, "branches", pattern, f"`branches`: {show(pattern)} matches no branch or tag there")

    def _globs(self, repo: RepoConfig, mirror: git.Repository) -> Iterator[Problem]:
        commit = git.resolve(mirror)
        entries = git.list_tree(mirror, commit.sha)
        files = [entry.path.decode(errors="surrogateescape") for entry in entries]
        for key, globs in (("allow", repo.rules.allow), ("deny", repo.rules.deny)):
            for glob in globs:
                place = places.find(self.folder, repo.name, key, glob)
                if place.rpartition(":")[0].rpartition("/")[2].startswith("_defaults"):
                    continue  # it is for all repositories
                spec = pathspec.GitIgnoreSpec.from_lines([glob.removeprefix("!")], backend=BACKEND)
                if not any(spec.match_file(path) for path in files):
                    what = f"`{key}`: {show(glob)} matches no file at {commit.branch} {commit.sha[:12]}"
                    yield self._at(repo, key, glob, what)
        told = policy.read(mirror, entries)
        rules = Rules(allow=repo.rules.allow, deny=repo.rules.deny)
        if entries and all(isinstance(select.by_path(entry, rules, told), Denied) for entry in entries):
            yield self._at(repo, "name", "", f"its rules deny all {len(entries)} files")

    def _at(self, repo: RepoConfig, key: str, entry: str, message: str) -> Problem:
        place = places.find(self.folder, repo.name, key, entry) or places.find(self.folder, repo.name, "name")
        file, _, line = place.rpartition(":")
        return Problem(file or repo.name, int(line) if line.isdigit() else 0, 1, f"{repo.name}: {message}")
