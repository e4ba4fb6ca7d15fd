"""Configured repositories: branches, removal, order of runs, failures that change nothing, gc, purge, verify."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows import fleet
from flows.config import Configuration, RepoConfig, Version
from flows.errors import UsageError
from flows.fleet import Options, Workshop
from flows.foresee import Ledger
from flows.select import Rules
from flows.settings import Settings
from flows.store import branches, collect, locks
from flows.store.connect import Database
from tests.conftest import Indexer
from tests.published import published
from tests.repos import Repo
from tests.stubs import StubEmbedder

SHAPES = "class Circle:\n    def area(self):\n        return 3.14\n\n\ndef unit():\n    return Circle()\n"
SECRET = "def hush():\n    return 'xyzzysecret'\n"


def version(day: int) -> Version:
    return Version(f"{day:040x}", datetime(2026, 1, day, tzinfo=UTC))


class Team:
    """A remote, its configuration and the runs of its CI."""

    def __init__(self, database: Database, settings: Settings, embedder: StubEmbedder, repo: Repo) -> None:
        self.shop = Workshop(database, settings, embedder)
        self.database, self.embedder, self.repo = database, embedder, repo

    def config(self, name: str = "team/app", **changes: object) -> RepoConfig:
        return replace(RepoConfig(name, self.repo.path.as_uri()), **changes)  # type: ignore[arg-type]

    def publish(
        self, *configs: RepoConfig, day: int = 1, source: str = "config", force: bool = False
    ) -> fleet.Published:
        with self.database.connect() as connection:
            return fleet.publish(connection, Configuration(source, version(day), configs), force=force)

    def sync(self, config: RepoConfig | None = None, **options: object) -> list[tuple[str, str]]:
        """Publish and sync one repository; return (branch, outcome) of each run."""
        config = config or self.config()
        self.publish(config)
        self.embedder.texts.clear()
        self.reports = fleet.sync_repo(self.shop, config, Options(**options))  # type: ignore[arg-type]
        return [(report.branch, report.outcome) for report in self.reports]

    def shown(self) -> list[str]:
        return sorted({branch for _, branch in published(self.database)})

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with self.database.connect() as connection:
            return connection.execute(query).fetchall()  # type: ignore[arg-type]


@pytest.fixture
def team(database: Database, config: Settings, embedder: StubEmbedder, repo: Repo) -> Team:
    repo.commit(a_py=SHAPES, docs__b_md="# B\n\ntext\n")
    return Team(database, config, embedder, repo)


def test_a_rule_that_denies_everything_is_named_with_its_place(team: Team, repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py=SHAPES)
    folder = tmp_path / "repos.d"
    folder.mkdir()
    (folder / "app.yaml").write_text(f"name: team/app\nurl: {repo.path.as_uri()}\ndeny:\n  - docs/\n  - '*'\n")
    config = team.config(rules=Rules(deny=("docs/", "*")))
    team.sync(config, folder=folder)
    assert team.reports[0].notes == [f"0 files: all 2 denied by deny: * ({folder / 'app.yaml'}:5)"]


def test_the_default_branch_is_synced_unless_told_otherwise(team: Team) -> None:
    team.repo.git("branch", "other")
    assert team.sync() == [("main", "done")]
    assert team.sync() == [("main", "unchanged")]


def test_branches_by_glob_share_content_and_vanish_with_their_ref(team: Team) -> None:
    # P32, P30: several branches; a deleted one loses its rows, shared chunks stay
    for name in ("release/1", "release/2", "topic"):
        team.repo.git("branch", name)
    team.repo.git("tag", "v1")
    config = team.config(branches=("main", "release/*", "!release/2", "tags/v*"))
    assert team.sync(config) == [("main", "done"), ("release/1", "done"), ("tags/v1", "done")]
    texts = team.rows("select count(*) from text")
    assert len(team.embedder.texts) == texts[0][0]  # the second and third branch cost nothing
    team.repo.git("branch", "-D", "release/1")
    team.sync(config)
    assert team.shown() == ["main", "tags/v1"]
    assert "release/1 is gone" in team.reports[0].notes[0]
    assert team.rows("select count(*) from text") == texts
    team.sync(team.config())  # no longer configured is as good as gone
    assert team.shown() == ["main"]


def test_a_failed_fetch_changes_nothing_and_is_recorded(team: Team) -> None:
    # P18: git pull failed, the new commit was recorded anyway
    team.sync()
    before = published(team.database)
    away = team.config(url=(team.repo.path.parent / "away").as_uri())
    with pytest.raises(UsageError, match="is configured by config already"):
        team.publish(away, source="someone else")
    reports = fleet.sync_repo(team.shop, away, Options())
    assert (reports[0].outcome, "cannot be fetched" in reports[0].errors[0]) == ("failed", True)
    assert published(team.database) == before
    assert team.rows("select outcome from sync_run order by run_id desc limit 1") == [("failed",)]


def test_an_older_commit_never_overwrites_a_newer_one(team: Team) -> None:
    # law 8: two jobs that end in the wrong order
    old = team.repo.git("rev-parse", "HEAD")
    team.repo.commit(a_py=SHAPES.replace("unit", "one"))
    new = team.repo.git("rev-parse", "HEAD")
    assert team.sync(branch="main", commit=new) == [("main", "done")]
    assert team.sync(branch="main", commit=old) == [("main", "superseded")]
    assert team.rows("select commit_sha from branch") == [(new,)]
    assert team.sync(branch="main", commit=old, force=True) == [("main", "done")]
    assert team.rows("select commit_sha from branch") == [(old,)]


def test_a_push_in_the_middle_of_a_run_supersedes_it(team: Team) -> None:
    team.sync()
    team.repo.commit(c_py="def c():\n    return 1\n")

    def push(texts: Sequence[str], vectors: object) -> object:
        team.repo.commit(d_py="def d():\n    return 1\n")
        team.embedder.spoil = None
        return vectors

    team.embedder.spoil = push  # type: ignore[assignment]
    assert team.sync() == [("main", "superseded")]
    assert team.rows("select path from file where path = 'c.py'") == []
    assert team.rows("select head_sha <> commit_sha from branch") == [(True,)]
    assert team.sync() == [("main", "done")]


def test_a_force_push_backwards_is_followed(team: Team) -> None:
    team.repo.commit(c_py="def c():\n    return 1\n")
    team.sync()
    team.repo.git("reset", "-q", "--hard", "HEAD~1")
    assert team.sync() == [("main", "done")]
    assert team.rows("select path from file order by 1") == [("a.py",), ("docs/b.md",)]
    assert team.embedder.texts == []


def test_a_shallow_checkout_is_enough(team: Team, tmp_path: Path) -> None:
    # P42: depth 1, the commit before is not there; law 6
    team.sync()
    team.repo.commit(a_py=SHAPES.replace("3.14", "3.1416"))
    team.repo.git("clone", "-q", "--depth", "1", team.repo.path.as_uri(), str(tmp_path / "ci"))
    assert team.sync(branch="main", checkout=tmp_path / "ci") == [("main", "done")]
    assert 1 <= len(team.embedder.texts) <= 2


def test_removing_a_file_of_the_configuration_removes_its_rows(team: Team) -> None:
    # P07; law 15: an ad hoc repository is nobody's to prune
    team.sync()
    Indexer(team.database, team.shop.settings, team.embedder)(team.repo, name="adhoc")
    assert team.publish(day=2).removed == ["team/app"]
    assert {repo for repo, _ in published(team.database)} == {"adhoc"}


def test_an_old_checkout_of_the_configuration_wipes_nothing(team: Team) -> None:
    team.publish(team.config(), team.config("team/other"), day=5)
    stale = team.publish(team.config(), day=3)
    assert stale.removed == [] and "is older than the published one" in stale.note
    assert stale.names == ["team/app", "team/other"]
    assert team.publish(team.config(), day=6).removed == ["team/other"]
    assert team.publish(day=3, force=True).removed == ["team/app"]


def test_a_name_belongs_to_one_configuration(team: Team) -> None:
    team.publish(team.config())
    with pytest.raises(UsageError, match="is configured by config already"):
        team.publish(team.config(), source="another")


def test_ad_hoc_indexing_keeps_the_configured_rules(team: Team) -> None:
    from flows import adhoc

    team.repo.commit(secret_py=SECRET)
    team.sync(team.config(rules=Rules(deny=("secret.py",))))
    source = adhoc.open_source(team.shop.settings, team.repo.path.as_uri())
    adhoc.index(team.database, team.shop.settings, team.embedder, source, name="team/app")
    assert team.rows("select path from file where path = 'secret.py'") == []


def test_a_new_deny_rule_purges_what_nothing_else_shows(team: Team) -> None:
    # law 10: denied means absent, in the same run, in every table
    team.repo.commit(secret_py=SECRET, shared_py=SHAPES.replace("unit", "shared"))
    team.sync()
    Indexer(team.database, team.shop.settings, team.embedder)(team.repo, name="other", rules=Rules(deny=("secret.py",)))
    assert team.sync(team.config(rules=Rules(deny=("secret.py", "shared.py")))) == [("main", "done")]
    for table in ("blob", "piece", "text", "chunk", "symbol", "lex", "file", "term_df"):
        assert team.rows(f"select 1 from {table} t where t::text like '%xyzzysecret%' or t::text like '%hush%'") == []
    assert team.rows("select count(*) > 0 from text where body like '%shared%'") == [(True,)]  # the other one shows it


def test_dry_run_changes_nothing(team: Team) -> None:
    team.sync()
    team.repo.commit(c_py="def c():\n    return 1\n")
    before = published(team.database)
    runs = team.rows("select count(*) from sync_run")
    assert team.sync(ledger=Ledger()) == [("main", "planned")]
    assert (team.reports[0].files.new, team.reports[0].files.removed) == (1, 0)
    assert published(team.database) == before and team.rows("select count(*) from sync_run") == runs


def never() -> bool:
    return False


def test_gc_takes_only_what_nothing_shows_after_its_grace(team: Team) -> None:
    # P25: the index was deleted right after it was made
    team.sync()
    team.repo.commit(a_py="def other():\n    return 2\n")
    team.sync()
    before = published(team.database)
    with team.database.connect() as connection:
        kept = collect.collect(connection, timedelta(days=14), never)
        assert (kept.cuts, kept.texts, kept.blobs) == (0, 0, 0)
        gone = collect.collect(connection, timedelta(0), never)
    assert gone.cuts == 1 and gone.texts >= 3 and gone.blobs == 1
    assert published(team.database) == before
    assert team.sync() == [("main", "unchanged")]


def test_gc_waits_for_runs(team: Team) -> None:
    team.sync()
    with team.database.connect() as run, locks.content(run), team.database.connect() as connection:
        assert collect.collect(connection, timedelta(0), never).busy


@pytest.mark.parametrize(
    "damage",
    [
        "update chunk set start_line = start_line + 1 where ord = 1",
        "update text set body = body || 'x' where text_id = (select min(text_id) from text)",
        "update lex set length = length + 1 where text_id = (select min(text_id) from lex)",
        "update emb_5555555555555555 set vector = vector + array_fill(0.5, array[16])::halfvec",
        "update symbol set name = 'wrong' where ord = 0",
        "update piece set body = body || 'x'",
        "update lex set weights = '{1:1}/1000000000'",
    ],
)
def test_verify_finds_and_heals_what_is_there_but_wrong(team: Team, damage: str) -> None:
    team.sync()
    before = published(team.database)
    team.rows(damage + " returning 1")
    assert published(team.database) != before
    assert team.sync() == [("main", "unchanged")]
    team.sync(verify=True)
    assert published(team.database) == before


def test_purge_takes_a_path_away_now(team: Team) -> None:
    team.repo.commit(secret_py=SECRET)
    team.sync()
    with team.database.connect() as connection:
        oids = branches.remove_files(connection, "team/app", "^secret\\.py$")
        collect.purge(connection, oids)
    assert team.rows("select 1 from text where body like '%xyzzysecret%'") == []
    assert team.rows("select files from branch") == [(2,)]
    assert team.sync() == [("main", "done")]  # it comes back unless a rule denies it


def test_branch_patterns() -> None:
    table = [
        ("main", ("main",), True),
        ("release/1/2", ("release/*",), True),
        ("release/1", ("*", "!release/*"), False),
        ("tags/v1", ("*",), False),  # tags only when asked for
        ("tags/v1", ("tags/v*",), True),
        ("Main", ("main",), False),
    ]
    assert [fleet.matches(name, patterns) for name, patterns, _ in table] == [expected for *_, expected in table]


def test_random_order_of_jobs_ends_at_the_tip(team: Team) -> None:
    shas = [team.repo.commit(a_py=SHAPES.replace("3.14", f"3.{n}")) for n in range(4)]
    random.Random(1).shuffle(jobs := list(shas))
    outcomes = {sha: team.sync(branch="main", commit=sha)[0][1] for sha in jobs}
    assert [outcomes[sha] for sha in shas] == ["superseded"] * 3 + ["done"]


def test_p35_a_renamed_default_branch_is_followed(team: Team) -> None:
    team.sync()
    team.repo.git("branch", "-m", "main", "trunk")
    assert team.sync() == [("trunk", "done")]
    assert team.shown() == ["trunk"] and team.embedder.texts == []
    assert team.rows("select name, is_default from branch") == [("trunk", True)]


def test_p02_p14_p19_a_push_shows_in_status_and_search(team: Team) -> None:
    from mcp_tools.code_search import code_search
    from mcp_tools.index import Index
    from mcp_tools.status import index_status

    team.sync()
    sha = team.repo.commit(a_py="def zebra_crossing():\n    return 1\n")
    team.repo.git("rm", "-q", "docs/b.md")
    sha = team.repo.commit()
    assert team.sync() == [("main", "done")]
    with Index(team.shop.settings, embedder=team.embedder) as index:
        status = index_status(index)
        answer = code_search(index, "zebra crossing")
    assert (status.state, status.branches[0].commit) == ("ready", sha)
    assert sha[:7] in answer.freshness
    assert {row.source_id.partition("#")[0] for row in answer.result} == {"a.py"}


def test_p33_equal_short_names_in_two_groups_stay_apart(team: Team, tmp_path: Path) -> None:
    other = Repo(tmp_path / "elsewhere")
    other.commit(b_py="def b():\n    return 1\n")
    config = team.config("payments/app", url=other.path.as_uri())
    team.publish(team.config(), config)
    for item in (team.config(), config):
        fleet.sync_repo(team.shop, item, Options())
    shown = published(team.database)
    assert sorted(repo for repo, _ in shown) == ["payments/app", "team/app"]
    assert {row[0] for row in shown["payments/app", "main"]} == {"b.py"}


def test_p59_a_deny_rule_over_many_files_is_quick(team: Team) -> None:
    for n in range(1500):
        team.repo.write(f"generated/f{n}.py", f"def f{n}():\n    return {n}\n")
    team.repo.commit()
    team.sync()
    assert team.sync(team.config(rules=Rules(deny=("generated/",)))) == [("main", "done")]
    assert team.rows("select count(*) from file") == [(2,)]
    assert team.rows("select count(*) from cut") == [(2,)]


def test_a_deny_rule_purges_older_versions_too(team: Team) -> None:
    # law 10: a version that was shown once has no path any more by which the rule could find it
    team.repo.commit(secret_py=SECRET)
    team.sync()
    team.repo.commit(secret_py=SECRET.replace("xyzzysecret", "plughsecret"))
    team.sync()
    team.repo.commit(secret_py=SECRET.replace("xyzzysecret", "third"))  # changed in the very push that denies it
    team.sync(team.config(rules=Rules(deny=("secret.py",))))
    for table in ("blob", "piece", "text", "chunk", "lex", "term_df"):
        assert team.rows(f"select 1 from {table} t where t::text ~ 'xyzzysecret|plughsecret|hush'") == []
    assert team.rows("select purge_due from branch") == [(False,)]


def test_a_purge_that_was_cut_off_is_made_up_for(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.repo.commit(secret_py=SECRET)
    team.sync()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(collect, "purge_unshown", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        team.sync(team.config(rules=Rules(deny=("secret.py",))))
    assert team.rows("select 1 from text where body like '%xyzzysecret%' limit 1") == [(1,)]
    team.sync(team.config(rules=Rules(deny=("secret.py",))))
    assert team.rows("select 1 from text where body like '%xyzzysecret%'") == []
