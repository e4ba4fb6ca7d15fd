"""scripts/ci as a CI runs it: the real program and model, a real remote and Postgres, an empty disk for each job."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from flows.settings import Settings
from tests.mcp_tools.conftest import Client, connected
from tests.published import published
from tests.repos import Repo, git

ROOT = Path(__file__).parent.parent.parent
SHAPES = "class Circle:\n    def area(self):\n        return 3.14\n\n\ndef unit():\n    return Circle()\n"
TOPIC = "def hexagon_side(perimeter):\n    return perimeter / 6\n"


class Done:
    """How a job ended."""

    def __init__(self, done: subprocess.CompletedProcess[str], summary: Path, plan: Path) -> None:
        self.code, self.output, self.errors = done.returncode, done.stdout, done.stderr
        self.summary = summary.read_text() if summary.exists() else ""
        self.plan = plan.read_text() if plan.exists() else ""


class Team:
    """Remotes on disk, and runners whose disk is thrown away after each job."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.dsn, self.jobs = folder, dsn, 0
        self.program = folder / "gitstrata"
        self.program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m mcp_tools.cli "$@"\n')
        self.program.chmod(0o755)
        self.app, self.config = self.remote("app"), self.remote("config")

    def remote(self, name: str) -> Repo:
        """Make a bare remote and a clone that developers work in."""
        bare = self.folder / "remotes" / f"{name}.git"
        bare.mkdir(parents=True)
        git(bare, "init", "-q", "--bare", "-b", "main")
        repo = Repo(self.folder / "work" / name)
        repo.git("remote", "add", "origin", self.url(name))
        return repo

    def url(self, name: str) -> str:
        return (self.folder / "remotes" / f"{name}.git").as_uri()

    def push(self, repo: Repo, ref: str = "main", *options: str, **files: str) -> str:
        sha = repo.commit(**files) if files else repo.git("rev-parse", "HEAD")
        repo.git("push", "-q", *options, "origin", f"HEAD:refs/heads/{ref}")
        return sha

    def job(self, name: str, *command: str, rev: str = "main", secrets: bool = True, **variables: str) -> Done:
        """Check ``rev`` of a remote out as CI does (depth 1, detached) on an empty disk, and run scripts/ci there."""
        self.jobs += 1
        disk = self.folder / f"runner-{self.jobs}"
        checkout = disk / "checkout"
        checkout.mkdir(parents=True)
        git(checkout, "init", "-q")
        git(checkout, "remote", "add", "origin", self.url(name))
        git(checkout, "fetch", "-q", "--depth", "1", "origin", rev)
        git(checkout, "checkout", "-q", "--detach", "FETCH_HEAD")
        (disk / "home").mkdir()
        summary, plan = disk / "summary.md", disk / "plan.md"
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(disk / "home"),
            "GITSTRATA_BIN": str(self.program),
            "GITSTRATA_CI_SUMMARY": str(summary),
            "GITSTRATA_CI_PLAN": str(plan),
            **({"GITSTRATA_DSN": self.dsn} if secrets else {}),
            **variables,
        }
        done = subprocess.run(
            [ROOT / "scripts" / "ci", *command], cwd=checkout, env=env, capture_output=True, text=True, timeout=300
        )
        result = Done(done, summary, plan)
        shutil.rmtree(disk)
        return result

    def pushed(self, sha: str, branch: str = "main", **variables: str) -> Done:
        """Run the job of a push to the member repository, as on GitHub."""
        variables = {"GITHUB_REF": f"refs/heads/{branch}", "GITHUB_SHA": sha, **variables}
        return self.job("app", "push", "team/app", rev=variables.pop("rev", sha), **variables)


@pytest.fixture
def team(tmp_path: Path, config: Settings) -> Team:
    assert config.dsn
    return Team(tmp_path, config.dsn)


def repository_file(team: Team, **more: str) -> str:
    lines = {"name": "team/app", "url": team.url("app"), "branches": "[main, topic]", **more}
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def found(client: Client, query: str) -> list[str]:
    answer = client.call("code_search", query=query, branch="*").structured_content or {}
    return [row["source_id"] for row in answer.get("result", [])]


def test_the_whole_story(team: Team, tmp_path: Path) -> None:
    """A team joins, pushes three times, and leaves; one MCP client watches all of it."""
    app, config = team.app, team.config
    team.push(app, area_py=SHAPES)
    app.git("checkout", "-q", "-b", "topic")
    team.push(app, "topic", topic_py=TOPIC)
    app.git("checkout", "-q", "main")
    team.push(config, repos_d__README_md="ours\n")

    # A pull request with a slip is refused at its place; the corrected one is planned.
    wrong = repository_file(team).replace("url:", "ulr:")
    config.write("repos.d/team+app.yaml", wrong)
    bad = team.push(config, "join", note_md="join\n")
    job = team.job("config", "check", rev=bad, GITHUB_ACTIONS="true")
    assert job.code == 2 and "unknown key 'ulr'; did you mean 'url'?" in job.output
    assert "::error file=repos.d/team+app.yaml,line=2,col=1::unknown key" in job.output
    assert job.plan.startswith("<!-- gitstrata plan -->\n### gitstrata: the repository files are wrong")
    config.write("repos.d/team+app.yaml", repository_file(team))
    good = team.push(config, "join", note_md="join\n")
    planned = team.job("config", "check", rev=good)
    assert planned.code == 0, planned.errors
    assert planned.plan.startswith("<!-- gitstrata plan -->\n") and "- added: `team/app`" in planned.plan
    assert planned.plan in planned.summary

    with connected(tmp_path / "serve.log", GITSTRATA_DSN=team.dsn, GITSTRATA_HOME=str(tmp_path / "client")) as client:
        assert found(client, "area of a circle") == []  # a plan writes nothing

        # Merged: the first sync does what was planned.
        team.push(config)
        first = team.job("config", "config")
        assert first.code == 0, first.errors
        for branch in ("main", "topic"):
            row = next(line for line in planned.plan.split("\n") if line.startswith(f"| `team/app` | `{branch}`"))
            _, _, _, _, new, _, added, _, vectors, *_ = (cell.strip() for cell in row.split("|"))
            done = next(line for line in first.summary.split("\n") if line.startswith(f"| `team/app` | `{branch}`"))
            assert [cell.strip() for cell in done.split("|")[5:10]] == [new, "0", added, "0", vectors]
        assert "ready, shows `" in first.summary
        assert "area.py#Circle.area" in found(client, "area of a circle")
        assert "topic.py#hexagon_side" in found(client, "hexagon side")

        # An edit, a rename, a force-push back: each job has an empty disk and a checkout of depth 1.
        edited = team.push(app, area_py=SHAPES.replace("unit", "unit_circle"))
        job = team.pushed(edited)
        assert job.code == 0 and "2 computed" in job.output, job.output + job.errors
        assert "area.py#unit_circle" in found(client, "unit circle")
        app.git("mv", "area.py", "shapes.py")
        renamed = team.push(app, other_txt="")
        job = team.pushed(renamed)
        assert job.code == 0 and "0 computed" in job.output
        assert "shapes.py#unit_circle" in found(client, "unit circle")
        assert "area.py#unit_circle" not in found(client, "unit circle")
        app.git("reset", "-q", "--hard", "HEAD~2")
        forced = team.push(app, "main", "--force")
        job = team.pushed(forced)
        assert job.code == 0, job.errors
        assert f"`{forced[:12]}`" in job.summary
        assert "area.py#unit" in found(client, "unit circle") and "shapes.py#unit_circle" not in found(client, "unit")

        # Nightly finds everything in order.
        nightly = team.job("config", "nightly", "repos.d")
        assert nightly.code == 0 and nightly.output.count(": unchanged") == 2, nightly.output + nightly.errors
        assert "gc: deleted 0 cuts" in nightly.summary

        # A branch is deleted; then the repository leaves.
        app.git("push", "-q", "origin", ":topic")
        gone = team.job("app", "push", "team/app", GITHUB_REF="refs/heads/topic", GITHUB_SHA="0" * 40)
        assert gone.code == 0 and "branch topic is gone" in gone.output, gone.output + gone.errors
        assert "topic.py#hexagon_side" not in found(client, "hexagon side")
        (config.path / "repos.d" / "team+app.yaml").unlink()
        leaving = team.push(config, "leave", note_md="leave\n")
        plan = team.job("config", "check", rev=leaving)
        assert "- removed: `team/app`" in plan.plan and "1 removed" in plan.plan
        team.push(config)
        done = team.job("config", "config")
        assert done.code == 0 and "team/app is not configured any more: removed" in done.output
        assert found(client, "area of a circle") == []


def joined(team: Team, **more: str) -> str:
    """Push a first commit and let the configuration name the repository; return that commit."""
    first = team.push(team.app, area_py=SHAPES)
    team.config.write("repos.d/team+app.yaml", repository_file(team, **more))
    team.push(team.config, note_md="join\n")
    assert team.job("config", "config").code == 0
    return first


def test_jobs_that_finish_in_the_wrong_order(team: Team, config: Settings) -> None:
    joined(team)
    older = team.push(team.app, area_py=SHAPES.replace("unit", "one"))
    newer = team.push(team.app, area_py=SHAPES.replace("unit", "two"))
    assert team.pushed(newer).code == 0
    late = team.pushed(older)
    assert late.code == 0 and "superseded" in late.output
    assert f"main stands at {newer[:12]} now" in late.summary
    status = subprocess.run(
        [team.program, "status", "--json"],
        env={"PATH": os.environ["PATH"], "HOME": str(team.folder), "GITSTRATA_DSN": team.dsn},
        capture_output=True,
        check=True,
    )
    assert [branch["commit"] for branch in json.loads(status.stdout)["branches"]] == [newer]


def test_checkouts_of_the_configuration_of_different_age_in_turn(team: Team) -> None:
    joined(team)
    old = team.config.git("rev-parse", "HEAD")
    other = team.remote("other")
    team.push(other, c_py=TOPIC)
    team.config.write("repos.d/other.yaml", f"name: other\nurl: {team.url('other')}\n")
    new = team.push(team.config, note_md="two\n")
    for rev in (new, old, new, old):
        job = team.job("config", "config", rev=rev)
        assert job.code == 0, job.errors
        assert ("is older than the published one" in job.output) == (rev == old)
        assert "removed" not in job.summary.replace("| removed |", "")
        assert "other main at" in job.output and "team/app main at" in job.output


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GITHUB_REF": "refs/pull/7/merge"}, "refs/pull/7/merge is not a branch of its own"),
        ({"CI_MERGE_REQUEST_IID": "7"}, "merge request 7 is indexed once it is merged"),
    ],
)
def test_merge_refs_are_left_alone_with_a_notice(team: Team, variables: dict[str, str], said: str) -> None:
    joined(team)
    job = team.job("app", "push", "team/app", **variables)
    assert (job.code, said in job.errors, said in job.summary) == (0, True, True)


@pytest.mark.parametrize("command", [("check",), ("config",), ("push", "team/app"), ("nightly",)])
def test_without_secrets_a_job_says_so_and_is_green(team: Team, command: tuple[str, ...]) -> None:
    team.config.write("repos.d/team+app.yaml", repository_file(team))
    team.push(team.config, note_md="join\n")
    job = team.job("config", *command, secrets=False, GITHUB_ACTIONS="true", GITHUB_REF="refs/heads/main")
    assert job.code == 0, job.errors
    assert "::notice title=gitstrata::GITSTRATA_DSN is not set" in job.output


def test_a_job_elsewhere_syncs_a_members_push(team: Team) -> None:
    """The recipe with a single holder of the DSN: the configuration repository's job is told branch and commit."""
    joined(team)
    sha = team.push(team.app, area_py=SHAPES.replace("unit", "elsewhere"))
    told = {"GITSTRATA_CI_BRANCH": "main", "GITSTRATA_CI_COMMIT": sha}
    job = team.job("config", "push", "team/app", GITHUB_REF="refs/heads/main", GITHUB_SHA="f" * 40, **told)
    assert job.code == 0 and f"main at {sha[:12]}: done" in job.output, job.output + job.errors


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"GITSTRATA_CI_BRANCH": "main", "GITSTRATA_CI_COMMIT": "main; touch x"}, "give the whole id of a commit"),
        ({"GITSTRATA_CI_BRANCH": "$(touch x)", "GITSTRATA_CI_COMMIT": "a" * 40}, "not configured"),
        ({"GITSTRATA_CI_BRANCH": "--force", "GITSTRATA_CI_COMMIT": "a" * 40}, "not configured"),
    ],
)
def test_what_a_job_is_told_is_no_command(team: Team, told: dict[str, str], said: str) -> None:
    joined(team)
    job = team.job("app", "push", "team/app", **told)
    assert said in job.output + job.errors and "--force" not in job.errors


def test_a_members_own_repos_d_is_no_configuration(team: Team) -> None:
    joined(team)
    team.app.write("repos.d/mine.yaml", f"name: mine\nurl: {team.url('config')}\n")
    job = team.pushed(team.push(team.app, b_py=TOPIC))
    assert job.code == 0, job.errors
    nightly = team.job("config", "nightly")
    assert "team/app main" in nightly.output and "mine" not in nightly.output


def test_tags_and_branches_of_gitlab(team: Team) -> None:
    joined(team, branches="[main, 'tags/v*']")
    sha = team.push(team.app, b_py=TOPIC)
    team.app.git("tag", "v1")
    team.app.git("push", "-q", "origin", "v1")
    job = team.job("app", "push", "team/app", rev=sha, CI_COMMIT_BRANCH="main", CI_COMMIT_SHA=sha)
    assert "team/app main at" in job.output and job.code == 0, job.errors
    job = team.job("app", "push", "team/app", rev=sha, CI_COMMIT_TAG="v1", CI_COMMIT_SHA=sha)
    assert "team/app tags/v1 at" in job.output and job.code == 0, job.errors


def test_a_member_that_is_gone_fails_in_the_summary_and_the_others_go_on(team: Team) -> None:
    joined(team)
    team.config.write("repos.d/away.yaml", f"name: away\nurl: {team.url('app')}x\n")
    team.push(team.config, note_md="away\n")
    job = team.job("config", "nightly", "repos.d")
    assert job.code == 1
    assert "| `away` | `*` | `-` | failed |" in job.summary and "cannot be fetched" in job.summary
    assert "`team/app main`: ready, shows" in job.summary


def test_words_that_make_no_sense_are_refused_in_one_line(team: Team) -> None:
    joined(team)
    for command, said in (
        ((), "say what happened"),
        (("deploy",), "say what happened"),
        (("push",), "say which repository this is"),
        (("push", "--all"), "is no name of a repository"),
        (("push", "team/ap"), "team/ap is not configured"),
    ):
        job = team.job("app", *command, GITHUB_REF="refs/heads/main", GITHUB_SHA="a" * 40)
        assert (job.code, said in job.errors) == (2, True), job.errors


def test_the_comment_is_written_once_and_then_kept_up_to_date(tmp_path: Path) -> None:
    """``gh`` is the one thing here that is pretended: it keeps comments in a file."""
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\necho "$@" >>"$LOG"\ncase "$*" in *--jq*) cat "$FOUND" ;; *) ;; esac\n')
    gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
    plan, log, known = tmp_path / "plan.md", tmp_path / "log", tmp_path / "found"
    plan.write_text("<!-- gitstrata plan -->\n")
    known.write_text("")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "o/r", "LOG": str(log), "FOUND": str(known)}

    def comment(number: str = "7") -> int:
        return subprocess.run([ROOT / "scripts" / "ci_comment", number, plan], env=env, check=False).returncode

    assert comment() == 0
    known.write_text("41\n42\n")
    assert comment() == 0
    calls = log.read_text().split("\n")
    assert f"api --silent --method POST repos/o/r/issues/7/comments --field body=@{plan}" in calls
    assert f"api --silent --method PATCH repos/o/r/issues/comments/41 --field body=@{plan}" in calls
    assert comment("7/../8") == 2
    plan.unlink()
    assert comment() == 0 and len(log.read_text().split("\n")) == len(calls)


def test_a_shown_index_equals_a_clean_one(team: Team, config: Settings) -> None:
    joined(team)
    team.pushed(team.push(team.app, b_py=TOPIC))
    from flows.store.connect import Database

    assert config.dsn
    assert [row[0] for row in published(Database(config.dsn))["team/app", "main"]] == ["area.py", "b.py"]
