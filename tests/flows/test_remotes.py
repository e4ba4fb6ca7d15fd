"""Remotes and checkouts that somebody else prepared: nothing of theirs is executed, and one of them stops nobody."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from flows import adhoc, fleet, git, urls
from flows.config import RepoConfig
from flows.errors import SourceError, UsageError
from flows.fleet import Options, Workshop
from flows.remotes import Remote
from flows.settings import Settings
from flows.store.connect import Database
from tests.repos import Repo
from tests.repos import git as run_git
from tests.stubs import StubEmbedder

CODE = "def one():\n    return 1\n"


def test_a_repository_around_the_caller_configures_no_fetch(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(a_py=CODE)
    trap, url = Repo(tmp_path / "trap"), repo.path.as_uri()
    mark = tmp_path / "executed"
    trap.git("config", f"remote.{url}.uploadpack", f"touch {mark}; git-upload-pack")
    trap.git("config", "credential.helper", f"!touch {mark}")
    trap.git("config", f"url.{tmp_path.as_uri()}/nowhere.insteadOf", url)
    monkeypatch.chdir(trap.path)
    remote = Remote(url)
    assert remote.tip("main") == repo.git("rev-parse", "HEAD")
    remote.mirror(tmp_path / "home" / "mirror.git")
    assert not mark.exists()


def test_looking_at_a_checkout_runs_none_of_its_filters(repo: Repo, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    repo.write(".gitattributes", "* filter=evil diff=evil\n")
    repo.commit(a_py=CODE, b_py=CODE)
    for key in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "core.fsmonitor"):
        repo.git("config", key, f"touch {mark}; cat")
    for name in ("a.py", "b.py"):
        os.utime(repo.path / name, ns=(2 * 10**18, 2 * 10**18))  # later than the index: git is not sure of them
    tree = git.working_tree(git.open_repository(repo.path), repo.git("rev-parse", "HEAD"))
    assert not mark.exists()
    assert tree is not None and tree.changed == 2


def test_a_checkout_without_changes_has_none(repo: Repo) -> None:
    repo.write("sub dir/ü\n.py", CODE)
    (repo.path / "link").symlink_to("nowhere")
    repo.commit(a_py=CODE, empty_py="")
    tree = git.working_tree(git.open_repository(repo.path), repo.git("rev-parse", "HEAD"))
    assert tree is not None and (tree.ahead, tree.behind, tree.changed) == (0, 0, 0)


@pytest.mark.parametrize(
    "committer",
    [
        b"committer A <a@b> 99999999999999999 +0000",
        b"committer A <a@b>",
        b"",
        b"committer A <a@b> -1 +0000",
    ],
)
def test_an_odd_committer_line_is_no_reason_to_fail(repo: Repo, committer: bytes) -> None:
    repo.commit(a_py=CODE)
    tree = repo.git("rev-parse", "HEAD^{tree}").encode()
    raw = b"tree " + tree + b"\nauthor A <a@b> 1 +0000\n" + committer + b"\n\nodd\n"
    sha = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw)
    commit = git.resolve(git.open_repository(repo.path), sha)
    assert (commit.sha, commit.tree, commit.committed_at.year) == (sha, tree.decode(), 1970)


def sync(database: Database, config: Settings, repo: Repo, **changes: object) -> list[tuple[str, str]]:
    wanted = RepoConfig("team/app", repo.path.as_uri(), **changes)  # type: ignore[arg-type]
    reports = fleet.sync_repo(Workshop(database, config, StubEmbedder()), wanted, Options())
    return [(report.branch, report.outcome) for report in reports]


def test_branch_names_of_any_bytes(database: Database, config: Settings, repo: Repo) -> None:
    sha = repo.commit(a_py=CODE)
    (repo.path / ".git" / "refs" / "heads" / os.fsdecode(b"caf\xe9")).write_text(f"{sha}\n")
    repo.git("branch", "feature/ü")
    repo.git("branch", "refs/heads/main")  # its full name ends like main's
    found = sync(database, config, repo, branches=("*",))
    expected = {"main", "caf\\xe9", "feature/ü", "refs/heads/main"}
    assert {branch for branch, _ in found} == expected and {outcome for _, outcome in found} == {"done"}


def test_a_damaged_mirror_is_made_anew_and_closed_to_others(database: Database, config: Settings, repo: Repo) -> None:
    repo.commit(a_py=CODE)
    sync(database, config, repo)
    mirror = adhoc.mirror_folder(config, repo.path.as_uri())
    assert stat.S_IMODE(config.mirrors.stat().st_mode) == 0o700
    for damage in ("rm -rf objects", "touch refs/heads/main.lock", "rm -rf objects refs config"):
        subprocess.run(["sh", "-c", damage], cwd=mirror, check=True)
        repo.commit(b_py=f"# {damage}\n")
        assert sync(database, config, repo) == [("main", "done")]


def test_when_every_configured_branch_is_gone_nothing_is_shown(
    database: Database, config: Settings, repo: Repo
) -> None:
    repo.commit(a_py=CODE)
    repo.git("branch", "release")
    assert sync(database, config, repo, branches=("release",)) == [("release", "done")]
    repo.git("branch", "-D", "release")
    assert sync(database, config, repo, branches=("release",)) == [("*", "failed")]
    with database.connect() as connection:
        assert connection.execute("select count(*) from branch").fetchone() == (0,)


def test_a_branch_that_is_not_configured_is_ignored(database: Database, config: Settings, repo: Repo) -> None:
    repo.commit(a_py=CODE)
    shop = Workshop(database, config, StubEmbedder())
    wanted = RepoConfig("team/app", repo.path.as_uri(), branches=("main",))
    reports = fleet.sync_repo(shop, wanted, Options(branch="topic"))
    assert [(report.outcome, report.errors) for report in reports] == [("ignored", [])]


def test_a_repository_that_git_cannot_open_says_so(repo: Repo) -> None:
    repo.commit(a_py=CODE)
    head = repo.git("rev-parse", "HEAD")
    stored = repo.path / ".git" / "objects" / head[:2] / head[2:]
    stored.chmod(0o644)
    stored.write_bytes(b"garbage")
    with pytest.raises(UsageError, match="cannot be read: run `git fsck`"):
        git.resolve(git.open_repository(repo.path))


def test_a_partial_clone_says_what_it_is(repo: Repo, tmp_path: Path) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit(a_py=CODE)
    clone = tmp_path / "partial"
    repo.git("clone", "-q", "--bare", "--filter=blob:none", repo.path.as_uri(), str(clone))
    repository = git.open_repository(clone)
    oids = [entry.oid for entry in git.list_tree(repository, git.resolve(repository).sha)]
    with pytest.raises(SourceError, match="partial clone"):
        git.sizes(repository, oids)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:p@ss@example.org/x",
        "https://user:se/cr@et@example.org/x",
        "https://example.org/x?private_token=p@ss",
        "https://example.org/x?private_token=secret",
        "user:hunter2@example.org:x",
        "https://user:hun ter2@example.org/x",
        "https:/user:hunter2@example.org/x",
        "https:user:hunter2@example.org/x",
        "https//user:hunter2@example.org/x",
        "https//hunter2@example.org/x",
        "https:/hunter2/x@example.org/x",
        "user:hunter2@example.org/x",
        ":hunter2@example.org",
        "https://user:hunter2",
        "https://user:hunter2/x",
        "https://user:hun ter2@example.org/a@b",
        "https://user:a/p@ss@example.org/x and git@example.org:y",
        "https://example.org/x?a=1&access_token=hunter2#b",
        "https://example.org/x#access_token=hunter2",
        "postgresql://me:hunter2@host/db",
    ],
)
def test_no_part_of_a_password_is_shown(url: str) -> None:
    shown = urls.redact(f"cannot fetch {url}: no")
    with pytest.raises(UsageError) as caught:
        urls.check_url(url + "\n")
    shown += str(caught.value)
    for part in ("p@ss", "ss@", "se/", "cr@", "et@", "secret", "hunter2", "hun", "ter2"):
        assert part not in shown


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (
            "fatal: '/x' does not appear to be a git repository\nfatal: Could not read from remote repository.\n\n"
            "Please make sure you have the correct access rights\nand the repository exists.\n",
            "'/x' does not appear to be a git repository",
        ),
        (
            "Warning: Permanently added 'h' to the list of known hosts.\ngit@h: Permission denied (publickey).\r\n"
            "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\n",
            "git@h: Permission denied (publickey)",
        ),
        (
            "remote: Counting objects: 10% (1/10)\rremote: Counting objects: 20% (2/10)\nerror: RPC failed; curl 56\n"
            "fetch-pack: unexpected disconnect\nfatal: early EOF\nfatal: fetch-pack: invalid index-pack output\n",
            "RPC failed; curl 56",
        ),
        (
            "remote: Repository not found.\nfatal: repository 'https://u:p@h/x/' not found\n",
            "repository 'https://***@h/x/' not found",
        ),
        ("fatal: the remote end hung up unexpectedly\n", "the remote end hung up unexpectedly"),
        ("", "no message"),
    ],
)
def test_the_reason_that_git_gives_is_kept(stderr: str, reason: str) -> None:
    assert git.complaint(stderr) == reason


def test_a_remote_that_is_not_there_is_said_in_gits_own_words(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        Remote((tmp_path / "away").as_uri()).head()
    assert "does not appear to be a git repository. Check the URL, the network and your access" in str(caught.value)


def test_a_token_without_a_place_of_its_own_is_not_shown_either() -> None:
    token = "ghp_" + "aB3" * 12
    for url in (f"https://{token}/team/app", f"{token}:x", f"https://example.org/{token}/app"):
        assert token not in urls.redact(f"cannot fetch {url}: no")


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org:8443/team/app",
        "git@example.org:team/app",
        "ssh://git:22/x",
        "ssh://git@example.org/team/app",
        "repos.d/a.yaml:6:3: wrong",
        "use postgresql://user@host/database",
        "https://host/v1#name&dimensions=512&query=search_query:%20",
        "https://registry.example.org/@scope/package?page=2#readme: ask me@example.org",
        "https://[::1]:8080/x and http://127.0.0.1:8765, too",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert urls.redact(text) == text


def test_what_stands_beside_a_secret_is_shown() -> None:
    said = urls.redact("'postgresql://me:hunter2@host:5432/db?sslmode=require': no; see https://x:y@h/a?key=z&page=2.")
    assert said == "'postgresql://me:***@host:5432/db?sslmode=require': no; see https://***@h/a?key=***&page=2."


def test_a_branch_that_is_not_there_is_named_without_the_mirrors_folder(
    database: Database, config: Settings, repo: Repo
) -> None:
    repo.commit(a_py=CODE)
    shop = Workshop(database, config, StubEmbedder())
    wanted = RepoConfig("team/app", repo.path.as_uri(), branches=("*",))
    (report,) = fleet.sync_repo(shop, wanted, Options(branch="nosuch"))
    assert report.outcome == "failed" and "has no branch, tag or commit 'nosuch'" in report.errors[0]
    assert str(config.mirrors) not in report.errors[0]


def test_a_token_goes_to_git_by_its_environment_only() -> None:
    remote = Remote("https://example.org/team/app.git", "t0ken")
    assert "t0ken" not in repr(remote)
    env = remote._environment()
    assert not [key for key, value in env.items() if "t0ken" in value]  # only in its encoded form
    assert env["GIT_CONFIG_KEY_" + str(int(env["GIT_CONFIG_COUNT"]) - 1)].startswith("http.https://example.org/team/")


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("git@example.org:team/app.git", "example.org/team/app"),
        ("ssh://git@example.org:22/team/app.git", "example.org/team/app"),
        ("https://user@example.org/team/app/", "example.org/team/app"),
        ("user:hunter2@example.org:team/app", "example.org/team/app"),
    ],
)
def test_all_spellings_of_a_remote_are_one(url: str, canonical: str) -> None:
    assert urls.canonical_url(url) == canonical


def test_a_mirror_of_tips_has_no_history_until_it_is_asked_for(repo: Repo, tmp_path: Path) -> None:
    first = repo.commit(a_py="x = 1\n")
    repo.commit(a_py="x = 2\n")
    repo.git("tag", "v1")
    repo.git("branch", "other")
    remote, folder = Remote(repo.path.as_uri()), tmp_path / "mirrors" / "m.git"
    only = ["refs/heads/main", "refs/tags/v1"]

    def commits(ref: str = "main") -> str:
        return run_git(folder, "rev-list", "--count", ref)

    mirror = remote.mirror(folder, only=only)
    assert (commits(), commits("v1"), list(git.list_refs(mirror))) == ("1", "1", only)
    repo.commit(a_py="x = 3\n")
    mirror = remote.mirror(folder, only=only)
    assert commits() == "1" and git.resolve(mirror).sha == repo.git("rev-parse", "HEAD")
    repo.git("reset", "-q", "--hard", first)  # backwards, to what it never had
    mirror = remote.mirror(folder, only=only)
    assert git.resolve(mirror).sha == first
    assert [entry.path for entry in git.list_tree(mirror, first)] == [b"a.py"]
    repo.git("reset", "-q", "--hard", "other")
    remote.mirror(folder)
    assert commits() == "2"
    remote.mirror(folder, only=only)
    assert commits() == "2"  # what is there stays
