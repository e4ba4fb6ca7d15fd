"""Random histories: after every step the database must equal a build from nothing (law 4).

A history is a repository that is edited, renamed, copied, reverted, merged, force-pushed and branched at random, synced
after each step under changing rules, with an embedder that sometimes fails, and with rows that sometimes vanish.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flows import git
from flows.embed import Vectors
from flows.errors import EmbedderError
from flows.select import Rules
from flows.settings import Settings
from flows.store.connect import Database
from flows.sync import Target, sync
from tests.published import Snapshot, published
from tests.repos import Repo
from tests.stubs import StubEmbedder

NAMES = (
    "a.py",
    "b.py",
    "src/c.py",
    "src/d.js",
    "src/deep/e.go",
    "docs/f.md",
    "g.txt",
    "H.py",
    "h.py",
    "run",
    "src/é.py",
)
RULES = (
    Rules(),
    Rules(deny=("docs/",)),
    Rules(deny=("*.js", "src/deep/")),
    Rules(allow=("src/", "*.py")),
    Rules(max_bytes=300),
)
TABLES = ("chunk", "lex", "symbol", "file", "text", "cut", "blob", "emb_5555555555555555")


def empty(database: Database) -> None:
    """Take everything out of a database but its schema and model."""
    with database.connect() as connection:
        connection.execute("truncate repo, configuration, blob, text, lex_stat, sync_run cascade")


@dataclass
class History:
    """One random history, synced into ``database``; ``oracle`` is built from nothing after each step."""

    chance: random.Random
    folder: Path
    database: Database
    oracle: Database
    settings: Settings
    embedder: StubEmbedder = field(default_factory=StubEmbedder)
    rules: Rules = field(default_factory=Rules)
    shown: dict[str, tuple[str, Rules]] = field(default_factory=dict)  # branch -> its commit and rules
    log: list[str] = field(default_factory=list)

    def run(self, steps: int) -> None:
        """Take random steps; raise AssertionError with the log if the database ever differs from a clean build."""
        empty(self.database)
        self.repo = Repo(self.folder)
        self.repo.commit("first", a_py="def a():\n    return 1\n")
        self._sync()
        for _ in range(steps):
            step = self.chance.choice(self.chance.choice(self._steps()))
            self.log.append(step.__name__.strip("_"))
            step()
            if self.chance.random() < 0.15:
                self._sync_with_failing_embedder()
            self._sync()
            self._check()

    def _steps(self) -> list[list[Callable[[], object]]]:
        """Return the kinds of steps, each equally likely."""
        edits: list[Callable[[], object]] = [self._edit, self._edit, self._edit_many]
        moves: list[Callable[[], object]] = [self._delete, self._rename, self._copy, self._mode, self._link]
        shapes: list[Callable[[], object]] = [self._empty_commit, self._revert, self._reset, self._merge]
        return [edits, moves, shapes, [self._branch, self._switch], [self._change_rules], [self._lose_rows]]

    # --- steps ---

    def _content(self, name: str) -> str | bytes:
        n = self.chance.randrange(6)
        bodies: dict[str, str | bytes] = {
            "py": f"import os\n\n\nclass K{n}:\n    def m(self):\n        return {n}\n\n\ndef f{n}():\n    pass\n",
            "js": f"export function f{n}() {{ return {n} }}\nclass K {{ m() {{ return {n} }} }}\n",
            "go": f"package p\n\nfunc F{n}() int {{ return {n} }}\n",
            "md": f"# Title {n}\n\ntext\n\n## Part\n\nmore {n}\n",
            "txt": "word " * (n * 30) + "\n",
        }
        if self.chance.random() < 0.1:
            odd: list[str | bytes] = [
                b"",
                b"\x00\x01" * 50,
                b"caf\xe9\n",
                "x = 1\r\ny = 2\r\n",
                "\ufeffdef bom(): pass\n",
            ]
            return self.chance.choice(odd)
        return bodies.get(name.rpartition(".")[2], f"#!/usr/bin/env python3\ndef run{n}():\n    pass\n")

    def _files(self) -> list[str]:
        listed = self.repo.git("ls-files", "-z").split("\0")
        return [name for name in listed if name and not (self.repo.path / name).is_symlink()]

    def _edit(self) -> None:
        name = self.chance.choice(NAMES)
        self.repo.write(name, self._content(name))
        self.repo.commit("edit")

    def _edit_many(self) -> None:
        for name in self.chance.sample(NAMES, 4):
            self.repo.write(name, self._content(name))
        self.repo.commit("edit many")

    def _delete(self) -> None:
        if files := self._files():
            self.repo.git("rm", "-qf", "--", self.chance.choice(files))
        self.repo.commit("delete")

    def _rename(self) -> None:
        if files := self._files():
            name = self.chance.choice(files)
            target = f"moved-{self.chance.randrange(3)}.{name.rpartition('.')[2]}"
            if target != name:
                self.repo.git("mv", "-f", "--", name, target)
        self.repo.commit("rename")

    def _copy(self) -> None:
        if files := self._files():
            name = self.chance.choice(files)
            self.repo.write(f"copy/{name}", (self.repo.path / name).read_bytes())
        self.repo.commit("copy")

    def _mode(self) -> None:
        if files := self._files():
            self.repo.git("update-index", "--chmod=" + self.chance.choice("+-") + "x", "--", self.chance.choice(files))
        self.repo.git("commit", "-q", "--allow-empty", "-m", "mode")
        self.repo.git("reset", "-q", "--hard")

    def _link(self) -> None:
        link = self.repo.path / "link"
        link.unlink(missing_ok=True)
        if not link.is_dir():
            link.symlink_to(self.chance.choice(["a.py", "/etc/passwd", "nowhere"]))
        self.repo.commit("link")

    def _empty_commit(self) -> None:
        self.repo.commit("empty")

    def _revert(self) -> None:
        old = self.chance.choice(self.repo.git("rev-list", "HEAD").split())
        self.repo.git("read-tree", "-u", "--reset", old)
        self.repo.git("commit", "-q", "--allow-empty", "-m", "back to an old tree")

    def _reset(self) -> None:
        self.repo.git("reset", "-q", "--hard", self.chance.choice(self.repo.git("rev-list", "HEAD").split()))

    def _branch(self) -> None:
        self.repo.git("checkout", "-q", "-B", self.chance.choice(["feature", "release/1"]))

    def _switch(self) -> None:
        self.repo.git(
            "checkout", "-q", self.chance.choice(self.repo.git("branch", "--format=%(refname:short)").split())
        )

    def _merge(self) -> None:
        other = self.chance.choice(self.repo.git("branch", "--format=%(refname:short)").split())
        self.repo.git("merge", "-q", "-X", "ours", "--allow-unrelated-histories", "-s", "ours", "-m", "merge", other)

    def _change_rules(self) -> None:
        self.rules = self.chance.choice(RULES)

    def _lose_rows(self) -> None:
        table = self.chance.choice(TABLES)
        with self.database.connect() as connection:
            if self.chance.random() < 0.5:
                connection.execute(f"truncate {table} cascade")
            elif table not in ("text", "blob", "cut"):
                connection.execute(f"delete from {table} where ctid in (select ctid from {table} limit 1)")

    # --- syncing and checking ---

    def _target(self, revision: str, rules: Rules) -> Target:
        repository = git.open_repository(self.repo.path)
        return Target("r", repository, git.resolve(repository, revision), rules)

    def _sync(self) -> None:
        branch = self.repo.git("branch", "--show-current")
        target = self._target(branch, self.rules)
        report = sync(self.database, self.settings, self.embedder, target)
        assert report.outcome in ("done", "unchanged"), (self.log, report)
        self.shown[branch] = (target.commit.sha, self.rules)
        for other, (_, rules) in list(self.shown.items()):  # rows lost by other branches are healed by their own runs
            if other != branch:
                sync(self.database, self.settings, self.embedder, self._target(other, rules))
                self.shown[other] = (self.repo.git("rev-parse", other), rules)

    def _sync_with_failing_embedder(self) -> None:
        before = published(self.database)
        was_whole = self.log[-1] != "lose_rows"  # a run that fails half-way may have healed a part
        left = self.chance.randrange(3)

        def spoil(texts: object, vectors: Vectors) -> Vectors:
            nonlocal left
            left -= 1
            if left < 0:
                raise EmbedderError("out of order")
            return vectors

        self.embedder.spoil = spoil
        try:
            self._sync()
        except EmbedderError:
            assert published(self.database) == before or not was_whole, self.log
            self.log.append("embedder failed")
        finally:
            self.embedder.spoil = None

    def _check(self) -> None:
        expected = self._clean_build()
        assert published(self.database) == expected, self.log

    def _clean_build(self) -> Snapshot:
        empty(self.oracle)
        for branch, (_, rules) in sorted(self.shown.items()):
            sync(self.oracle, self.settings, StubEmbedder(), self._target(branch, rules))
        return published(self.oracle)
