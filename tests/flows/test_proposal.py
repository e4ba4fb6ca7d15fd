"""`repos plan`: its files, chunks and vectors are those of the sync that follows, whatever the change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chunkers import cut
from chunkers.chunk import Cut
from flows import fleet
from flows.config import Configuration, RepoConfig, Version
from flows.fleet import Options, Workshop
from flows.proposal import Proposal, propose, totals
from flows.report import Report
from flows.select import Rules
from flows.settings import Settings
from flows.store.connect import Database
from mcp_tools import proposal as shown
from tests import hostile
from tests.published import published
from tests.repos import Repo
from tests.stubs import StubEmbedder

SHAPES = "class Circle:\n    def area(self):\n        return 3.14\n\n\ndef unit():\n    return Circle()\n"
COPY = "def area(radius):\n    return 3.14 * radius\n"


class Fleet:
    """Three remotes and the configuration that names them."""

    def __init__(self, database: Database, settings: Settings, embedder: StubEmbedder, folder: Path) -> None:
        self.shop = Workshop(database, settings, embedder)
        self.database, self.embedder, self.day = database, embedder, 1
        self.remotes = {name: Repo(folder / name) for name in ("a", "b", "c")}
        self.remotes["a"].commit(a_py=SHAPES, docs__b_md="# B\n\ntext\n", lib__x_js="export function x() {}\n")
        self.remotes["b"].commit(a_py=SHAPES, c_py=COPY, yarn_lock="x\n")  # shares content with a
        self.remotes["c"].commit(c_py=COPY, big_txt="line\n" * 300_000, other_bin=b"\0\1\2")
        self.configs = [self.config(name) for name in self.remotes]

    def config(self, name: str, **changes: Any) -> RepoConfig:
        return replace(RepoConfig(name, self.remotes[name].path.as_uri()), **changes)

    def change(self, name: str, **changes: Any) -> None:
        self.configs = [self.config(name, **changes) if c.name == name else c for c in self.configs]

    def configuration(self) -> Configuration:
        version = Version(f"{self.day:040x}", datetime(2026, 1, self.day, tzinfo=UTC))
        return Configuration("config", version, tuple(self.configs))

    def plan(self, *names: str, everything: bool = False) -> Proposal:
        self.day += 1
        return propose(self.shop, self.configuration(), names, Options(), everything=everything)

    def sync(self, *names: str) -> list[Report]:
        with self.database.connect() as connection:
            done = fleet.publish(connection, self.configuration())
            configs = fleet.in_force(connection, names or done.names) if names or done.names else []
        return [report for config in configs for report in fleet.sync_repo(self.shop, config, Options())]

    def check(self) -> tuple[Proposal, list[Report]]:
        """Plan everything, sync everything, and compare each branch."""
        before, size = published(self.database), self.size()
        plan = self.plan(everything=True)
        assert published(self.database) == before and self.size() == size  # it writes nothing
        self.embedder.texts.clear()
        done = self.sync()
        planned = {(report.repo, report.branch): exact(report) for report in plan.reports if report.files.seen}
        assert planned == {(report.repo, report.branch): exact(report) for report in done if report.files.seen}
        assert totals(plan.reports).computed == len(self.embedder.texts)
        return plan, done

    def size(self) -> tuple[Any, ...]:
        tables = ("repo", "configuration", "branch", "file", "blob", "cut", "text", "model", "sync_run")
        with self.database.connect() as connection:
            counts = [connection.execute(f"select count(*) from {name}").fetchone() for name in tables]  # type: ignore[arg-type]
        return tuple(counts)


def exact(report: Report) -> dict[str, Any]:
    value = report.to_json()
    return {key: value[key] for key in ("files", "chunks", "vectors", "commit")}


@pytest.fixture
def team(database: Database, config: Settings, embedder: StubEmbedder, tmp_path: Path) -> Fleet:
    return Fleet(database, config, embedder, tmp_path / "remotes")


def test_the_plan_of_a_first_index_of_repositories_that_share_content(team: Fleet) -> None:
    plan, _ = team.check()
    assert (plan.added, plan.changed, plan.removed) == (["a", "b", "c"], [], [])
    assert [report.outcome for report in plan.reports] == ["planned"] * 3
    assert plan.reports[1].chunks.reused > 0 and plan.reports[2].vectors.computed == 1  # b brings what c has
    forecast = plan.reports[0].forecast
    assert forecast is not None and next(iter(forecast.largest)) == "a.py"
    assert {name: (s.files, s.chunks) for name, s in forecast.languages.items()}["markdown"][0] == 1
    assert forecast.bytes > 0 and forecast.characters > 0


def test_the_plan_of_edits_renames_and_removals(team: Fleet) -> None:
    team.check()
    a, b = team.remotes["a"], team.remotes["b"]
    a.commit(a_py=SHAPES.replace("3.14", "3.1416"), new_py=COPY)
    b.git("mv", "a.py", "moved.py")
    b.git("rm", "-q", "yarn.lock")
    b.commit()
    plan, done = team.check()
    assert [report.outcome for report in plan.reports] == ["planned", "planned", "unchanged"]
    assert [report.outcome for report in done] == ["done", "done", "unchanged"]
    assert plan.unchanged == ["a", "b", "c"]  # their configuration is; without --all nothing is looked at
    assert team.plan().reports == []


@pytest.mark.parametrize(
    "rules",
    [
        Rules(deny=("docs/",)),
        Rules(allow=("*.py",)),
        Rules(languages=("markdown",)),
        Rules(max_bytes=1_000),
        Rules(include_generated=True, include_vendored=True),
        Rules(deny=("*",)),
    ],
    ids=lambda rules: repr(rules)[:60],
)
def test_the_plan_of_a_change_of_rules(team: Fleet, rules: Rules) -> None:
    team.check()
    team.change("a", rules=rules)
    plan, _ = team.check()
    assert plan.changed == ["a"] and plan.unchanged == ["b", "c"]
    team.change("a")  # and back: what was purged is computed again
    team.check()


def test_the_plan_of_branches_that_come_and_go(team: Fleet) -> None:
    team.check()
    remote = team.remotes["a"]
    remote.git("checkout", "-q", "-b", "topic")
    remote.commit(topic_py="def topic():\n    return 1\n")
    remote.git("checkout", "-q", "main")
    team.change("a", branches=("main", "topic"))
    plan, _ = team.check()
    assert [r.files.new for r in plan.reports if r.repo == "a"] == [0, 4]
    team.change("a")
    plan, done = team.check()
    gone = next(report for report in plan.reports if report.branch == "topic")
    assert gone.files.removed == 4 and gone.notes == ["this branch is gone or not configured any more"]
    assert "branch topic is gone" in done[0].notes[0]


def test_the_plan_of_a_repository_that_leaves(team: Fleet) -> None:
    team.check()
    team.configs = [config for config in team.configs if config.name != "b"]
    rows = len(published(team.database)["b", "main"])
    plan, _ = team.check()
    assert plan.removed == ["b"]
    assert (plan.reports[0].repo, plan.reports[0].files.removed) == ("b", rows)
    assert ("b", "main") not in published(team.database)


def test_the_plan_of_odd_files_and_of_one_that_fails(
    team: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.remotes["a"] = hostile.make_hostile(tmp_path / "hostile")
    team.change("a")
    original = cut.cut

    def fail(text: str, language: str) -> Cut:
        if language == "markdown":
            raise ValueError("no")
        return original(text, language)

    monkeypatch.setattr(cut, "cut", fail)
    plan, done = team.check()
    assert done[0].outcome == "partial" and plan.reports[0].files.skipped["failed"] > 0
    monkeypatch.undo()
    team.check()


def test_a_plan_names_what_cannot_be_fetched_and_goes_on(team: Fleet) -> None:
    team.configs[0] = replace(team.configs[0], url=(team.remotes["a"].path.parent / "away").as_uri())
    plan = team.plan()
    assert [report.outcome for report in plan.reports] == ["failed", "planned", "planned"]
    assert plan.is_failed and "cannot be fetched" in plan.reports[0].errors[0]
    assert "| `a` | `*` | failed |" in shown.markdown(plan)


def test_equal_plans_give_the_same_comment_whatever_names_hold(team: Fleet) -> None:
    remote = team.remotes["a"]
    remote.write("x|y`@all <b> #1.py", COPY + "\n\ndef more():\n    return 2\n")
    remote.commit()
    first, second = shown.markdown(team.plan()), shown.markdown(team.plan())
    assert first == second and first.startswith("<!-- gitstrata plan -->\n")
    assert "`x\u00a6y'@all <b> #1.py`" in first
    assert "x|y" not in first
