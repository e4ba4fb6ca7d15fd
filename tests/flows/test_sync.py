"""A commit, indexed: what is written, what it costs, what is left out, and that nothing wrong is ever shown."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psycopg
import pytest

from flows import git
from flows.embed import Vectors
from flows.errors import Busy, EmbedderError, SchemaMismatch, SourceError, UsageError
from flows.select import Rules
from flows.store import branches, locks
from flows.store.connect import Database
from flows.store.models import active_model
from flows.sync import Target, sync
from tests.conftest import Indexer
from tests.published import published
from tests.repos import Repo
from tests.stubs import StubEmbedder

SHAPES = '''"""Shapes."""

class Circle:
    """A circle."""

    def area(self) -> float:
        return 3.14 * self.radius ** 2

    def grow(self, by: float) -> None:
        self.radius += by


def unit() -> Circle:
    return Circle()
'''


def count(database: Database, table: str) -> int:
    with database.connect() as connection:
        row = connection.execute(f"select count(*) from {table}").fetchone()  # type: ignore[arg-type]
    assert row is not None
    return int(row[0])


def paths(database: Database) -> dict[str, str | None]:
    with database.connect() as connection:
        return dict(connection.execute("select path, skip from file order by path").fetchall())


def rebuilt(index: Indexer, *repos: tuple[Repo, str]) -> object:
    """Return what an empty database shows after indexing the same commits."""
    with index.database.connect() as connection:
        connection.execute("truncate repo, branch, file, blob, cut, symbol, text, chunk, lex cascade")
    for repo, name in repos:
        index(repo, name=name)
    return published(index.database)


def test_first_index_shows_every_file_and_counts_it(index: Indexer, repo: Repo) -> None:
    repo.commit(shapes_py=SHAPES, readme_md="# Shapes\n\nCircles that grow.\n")
    report = index(repo, name="shapes")
    assert report.outcome == "done"
    assert (report.files.seen, report.files.new, report.files.removed) == (2, 2, 0)
    assert report.chunks.total == report.chunks.added == sum(report.chunks.by_level.values()) > 4
    assert report.vectors.computed == len(set(index.embedder.texts)) == len(index.embedder.texts)
    assert {"file", "class", "method"} <= {level for level, n in report.chunks.by_level.items() if n}
    assert list(paths(index.database)) == ["readme.md", "shapes.py"]


def test_an_unchanged_run_reads_no_blob_and_embeds_nothing(
    index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(shapes_py=SHAPES)
    index(repo)
    before = published(index.database)
    monkeypatch.setattr(git, "list_tree", lambda *_: pytest.fail("listed the tree"))  # law 5: before any listing
    monkeypatch.setattr(git.ObjectReader, "read", lambda *_: pytest.fail("read a blob"))
    report = index(repo)
    assert report.outcome == "unchanged"
    assert index.embedder.texts == []
    assert published(index.database) == before


def test_a_body_edit_embeds_at_most_two_texts(index: Indexer, repo: Repo) -> None:
    repo.commit(shapes_py=SHAPES)
    index(repo)
    repo.commit(shapes_py=SHAPES.replace("3.14", "3.14159"))
    report = index(repo)
    assert (report.outcome, report.files.new, report.files.removed) == ("done", 1, 1)
    assert 1 <= len(index.embedder.texts) <= 2


def test_a_signature_edit_embeds_at_most_four_texts(index: Indexer, repo: Repo) -> None:
    repo.commit(shapes_py=SHAPES)
    index(repo)
    repo.commit(shapes_py=SHAPES.replace("grow(self, by: float)", "grow(self, by: float, times: int)"))
    index(repo)
    assert 1 <= len(index.embedder.texts) <= 4


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: r.git("mv", "src", "lib"), id="directory renamed"),
        pytest.param(lambda r: shutil.copytree(r.path / "src", r.path / "copy"), id="copied"),  # P27
        pytest.param(lambda r: r.git("update-index", "--chmod=+x", "src/a.py"), id="mode only"),  # P44
        pytest.param(lambda r: None, id="empty commit"),  # P44
        pytest.param(lambda r: r.git("rm", "-q", "src/b.py"), id="deleted"),
        pytest.param(lambda r: (r.path / "link").symlink_to("/etc/passwd"), id="symlink added"),  # P37
    ],
)
def test_changes_without_new_content_embed_nothing(index: Indexer, repo: Repo, change: object) -> None:
    repo.commit(src__a_py=SHAPES, src__b_py="def b():\n    return 1\n")
    index(repo, name="r")
    change(repo)  # type: ignore[operator]
    staged = "mode" if "100755" in repo.git("ls-files", "-s") else ""
    repo.git("commit", "-q", "-m", "x") if staged else repo.commit()
    report = index(repo, name="r")
    assert report.outcome in ("done", "unchanged")
    assert index.embedder.texts == []
    shown = published(index.database)
    assert shown == rebuilt(index, (repo, "r"))


def test_revert_branch_clone_and_fork_embed_nothing(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    repo.commit(shapes_py=SHAPES)
    index(repo, name="r")
    repo.commit(shapes_py="def other():\n    pass\n")
    index(repo, name="r")
    repo.commit(shapes_py=SHAPES)  # a revert
    index(repo, name="r")
    assert index.embedder.texts == []
    repo.git("branch", "feature")
    assert index(repo, "feature", name="r").outcome == "done"
    assert index.embedder.texts == []
    for options in ([], ["--depth", "1"], ["--bare"]):
        clone = tmp_path / f"clone{len(options)}{''.join(options)}"
        repo.git("clone", "-q", *options, repo.path.as_uri(), str(clone))
        assert index(clone, name="fork").repo == "fork"  # the name moves from one clone to the next
        assert index.embedder.texts == []


def test_history_of_edits_equals_a_clean_build(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=SHAPES, b_py="def b():\n    return 1\n", c_md="# C\n\ntext\n")
    index(repo, name="r")
    steps = [
        lambda: repo.write("a.py", SHAPES.replace("unit", "one")),
        lambda: repo.git("mv", "b.py", "d.py"),
        lambda: (repo.git("rm", "-q", "d.py"), repo.write("d.py/inner.py", "x = 1\n")),  # file becomes directory: P44
        lambda: repo.write("A.py", "def upper():\n    return 2\n"),  # differs in case only: P44
        lambda: repo.write("c.md", "# C\n\nmore text\n\n## D\n\nand more\n"),
        lambda: repo.git("rm", "-q", "-r", "."),  # P21
        lambda: repo.write("again.py", SHAPES),
    ]
    for step in steps:
        step()
        repo.commit()
        index(repo, name="r")
    assert published(index.database) == rebuilt(index, (repo, "r"))


def test_odd_names_survive_and_stay_apart(index: Indexer, repo: Repo) -> None:
    # P28: git's quoted form of names was taken for the name, and files were lost
    names = [
        "src/中文目录/服务.py",
        "quote'\".py",
        "back\\slash.py",
        "new\nline.py",
        "tab\t.py",
        "trailing .py ",
        "#hash.py",
    ]
    for i, name in enumerate(names):
        repo.write(name, f"def f{i}():\n    return {i}\n")
    repo.write(b"latin\xe9.py", "def latin():\n    return 1\n")
    repo.commit()
    assert index(repo).files.seen == len(names) + 1
    shown = paths(index.database)
    assert "latin\\xe9.py" in shown and "new\\u{a}line.py" in shown and "back\\\\slash.py" in shown
    assert set(shown.values()) == {None}


def test_what_is_left_out_has_a_reason(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    other = Repo(tmp_path / "other")
    other.commit(x_py="x = 1\n")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.path), "vendor/other")
    (repo.path / "outside").symlink_to("/etc/passwd")
    (repo.path / "dangling").symlink_to("nowhere")
    repo.write("logo.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    repo.write("app.min.js", "!function(){}" * 10)
    repo.write("bundle.js", "a=1;" * 5000)
    repo.write("big.txt", "word " * 300_000)
    repo.write("lfs.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    repo.write("package-lock.json", "{}")
    repo.write("kept.py", "def kept():\n    return 1\n")
    repo.commit()
    report = index(repo)
    assert report.outcome == "done"
    assert paths(index.database) == {
        ".gitmodules": None,
        "app.min.js": "minified",
        "big.txt": "too_large",
        "bundle.js": "minified",
        "dangling": "symlink",
        "kept.py": None,
        "lfs.bin": "lfs_pointer",
        "logo.png": "binary",
        "outside": "symlink",
        "package-lock.json": "lock_file",
        "vendor/other": "submodule",
    }
    with index.database.connect() as connection:  # law 7: nothing from outside the repository
        assert connection.execute("select 1 from piece where body like '%root:%'").fetchone() is None


def test_skipped_blobs_are_not_read_again(index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("logo.png", b"\x00\x01\x02" * 500)
    repo.commit(a_py="a = 1\n")
    index(repo)
    repo.git("mv", "logo.png", "icon.png")
    repo.commit(b_py="b = 2\n")
    read: list[str] = []
    original = git.ObjectReader.read
    monkeypatch.setattr(git.ObjectReader, "read", lambda self, oid: read.append(oid) or original(self, oid))
    index(repo)
    assert len(read) == 1


def test_a_corrupt_blob_fails_alone_and_is_tried_again(index: Indexer, repo: Repo) -> None:
    # P40: one malformed document aborted the whole repository
    repo.commit(good_py="def good():\n    return 1\n", bad_py="def bad():\n    return 2\n")
    blob = repo.git("rev-parse", "HEAD:bad.py")
    stored = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    healthy = stored.read_bytes()
    stored.chmod(0o644)
    stored.write_bytes(b"not a zlib stream")
    report = index(repo)
    assert report.outcome == "partial"
    assert report.errors and "bad.py" in report.errors[0]
    assert paths(index.database) == {"bad.py": "failed", "good.py": None}
    stored.write_bytes(healthy)
    assert index(repo).outcome == "done"
    assert paths(index.database) == {"bad.py": None, "good.py": None}


def test_an_embedder_that_fails_publishes_nothing_and_keeps_finished_work(index: Indexer, repo: Repo) -> None:
    # P05: the state advanced although rows were missing
    repo.commit(a_py=SHAPES)
    index(repo, name="r")
    before = published(index.database)
    for i in range(80):
        repo.write(f"new{i}.py", f"def new{i}():\n    return {i}\n")
    repo.commit()

    def spoil(texts: object, vectors: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        if len(index.embedder.texts) > 60:
            raise EmbedderError("the provider is away")
        return vectors

    index.embedder.spoil = spoil
    with pytest.raises(EmbedderError, match="provider is away"):
        index(repo, name="r")
    assert published(index.database) == before
    done = count(index.database, "text")
    index.embedder.spoil = None
    report = index(repo, name="r")
    assert report.outcome == "done"
    assert done > 0 and report.vectors.computed < 2 * 80
    assert published(index.database) == rebuilt(index, (repo, "r"))


def test_a_text_without_a_usable_vector_fails_its_file_alone(index: Indexer, repo: Repo) -> None:
    # P80: one NaN vector aborted the batch
    repo.commit(a_py=SHAPES, bad_py="def unlucky():\n    return 13\n", c_py="c = 1\n")

    def spoil(texts: Sequence[str], vectors: Vectors) -> Vectors:
        vectors[["unlucky" in text for text in texts]] = np.nan
        return vectors

    index.embedder.spoil = spoil
    report = index(repo, name="r")
    assert (report.outcome, len(report.errors)) == ("partial", 1)
    assert "bad.py: the model has no usable vector" in report.errors[0]
    assert paths(index.database) == {"a.py": None, "bad.py": "failed", "c.py": None}
    index.embedder.spoil = None
    assert index(repo, name="r").outcome == "done"
    assert published(index.database) == rebuilt(index, (repo, "r"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda texts, v: v[:, :5], "shape"),
        (lambda texts, v: v[:-1], "shape"),
    ],
)
def test_unusable_vectors_are_never_stored(index: Indexer, repo: Repo, spoil: object, message: str) -> None:
    repo.commit(a_py=SHAPES)
    index.embedder.spoil = spoil  # type: ignore[assignment]
    with pytest.raises(EmbedderError, match=message):
        index(repo)
    assert count(index.database, "branch") == 0


@pytest.mark.parametrize("table", ["chunk", "lex", "symbol", "file", "text", "cut", "blob"])
def test_lost_rows_are_noticed_and_healed(index: Indexer, repo: Repo, table: str) -> None:
    # P06, P01: the database lost rows, the state said that all was well, and it stayed empty for ever
    repo.commit(a_py=SHAPES, b_md="# B\n\ntext\n")
    index(repo, name="r")
    before = published(index.database)
    with index.database.connect() as connection:
        connection.execute(f"truncate {table} cascade")  # type: ignore[arg-type]
    assert index(repo, name="r").outcome == "done"
    assert published(index.database) == before
    assert index(repo, name="r").outcome == "unchanged"


def test_lost_vectors_are_computed_again(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=SHAPES)
    index(repo, name="r")
    before = published(index.database)
    with index.database.connect() as connection:
        connection.execute("delete from emb_5555555555555555 where text_id in (select min(text_id) from text)")
    report = index(repo, name="r")
    assert (report.outcome, report.healed, report.vectors.computed) == ("done", 1, 1)
    assert published(index.database) == before


def test_rules_decide_and_a_change_redoes_only_what_it_touches(index: Indexer, repo: Repo) -> None:
    repo.commit(src__a_py="def a():\n    return 1\n", docs__b_md="# B\n\ntext\n", secret_txt="hush\n")
    index(repo, name="r", rules=Rules(deny=("secret.txt", "docs/")))
    assert list(paths(index.database)) == ["src/a.py"]
    report = index(repo, name="r", rules=Rules(deny=("secret.txt",)))
    assert list(paths(index.database)) == ["docs/b.md", "src/a.py"]
    assert not [text for text in index.embedder.texts if "def a" in text]
    assert (report.files.new, report.files.removed) == (1, 0)
    index(repo, name="r", rules=Rules(allow=("*.md",)))
    assert list(paths(index.database)) == ["docs/b.md"]


def test_another_model_is_refused(index: Indexer, repo: Repo) -> None:
    # P84: only the model's name was compared
    repo.commit(a_py=SHAPES)
    index(repo)
    other = Indexer(index.database, index.config, StubEmbedder("6" * 64))
    assert other(repo).outcome == "unchanged"  # nothing to embed
    repo.commit(b_py="b = 1\n")
    with pytest.raises(SchemaMismatch, match=r"has vectors of a model 555555555555.*run `gitstrata model set default`"):
        other(repo)


def test_one_name_stands_for_one_repository(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py=SHAPES)
    index(repo)
    other = Repo(tmp_path / "elsewhere" / "repo")
    other.commit(b_py="b = 1\n")
    with pytest.raises(UsageError, match="already stands for"):
        index(other)
    assert list(paths(index.database)) == ["a.py"]


def test_a_second_run_on_a_branch_waits_or_says_so(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=SHAPES)
    repository = git.open_repository(repo.path)
    target = Target("r", repository, git.resolve(repository), wait=False)
    with (
        index.database.connect() as holder,
        locks.branch(holder, "r", "main", wait=True),
        pytest.raises(Busy, match="another run"),
    ):
        sync(index.database, index.config, index.embedder, target)
    assert sync(index.database, index.config, index.embedder, target).outcome == "done"


def test_a_branch_that_moved_meanwhile_is_not_overwritten(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=SHAPES)
    index(repo, name="r")
    with index.database.connect() as connection:
        seen = branches.find_branch(connection, "r", "main")
        repo.commit(b_py="b = 1\n")
        index(repo, name="r")
        commit = git.resolve(git.open_repository(repo.path))
        change = branches.Change([], [])
        model = active_model(connection)
        assert model is not None
        with pytest.raises(Exception, match="changed by another run"):
            branches.publish(connection, "r", commit, "x", change, expected=seen, make_default=False, model=model)
    assert list(paths(index.database)) == ["a.py", "b.py"]


def test_a_missing_revision_or_commit_changes_nothing(index: Indexer, repo: Repo) -> None:
    with pytest.raises(SourceError, match="no commit at HEAD yet"):  # P35
        index(repo)
    repo.commit(a_py=SHAPES)
    with pytest.raises(SourceError, match="no branch, tag or commit 'nope'"):
        index(repo, "nope")
    with pytest.raises(SourceError, match="no branch, tag or commit '--help'"):
        index(repo, "--help")
    assert count(index.database, "repo") == 0


def test_tag_sha_detached_head_and_worktree_are_revisions(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    first = repo.commit(a_py=SHAPES)
    repo.git("tag", "-a", "v1", "-m", "one")
    repo.commit(b_py="b = 1\n")
    assert index(repo, "v1", name="r").commit == first
    assert index(repo, first[:10], name="r").commit == first
    repo.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side", "v1")
    report = index(tmp_path / "tree", name="r")
    assert (report.branch, report.commit) == ("side", first)
    repo.git("checkout", "-q", "--detach", "v1")
    assert index(repo, name="r").branch == "HEAD"


def test_runs_are_recorded(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=SHAPES)
    index(repo, name="r")
    index.embedder.spoil = lambda texts, vectors: vectors[:, :1]
    repo.commit(a_py=SHAPES.replace("unit", "one"))
    with pytest.raises(EmbedderError):
        index(repo, name="r")
    with index.database.connect() as connection:
        rows = connection.execute("select outcome, error from sync_run order by run_id").fetchall()
    assert [row[0] for row in rows] == ["done", "failed"]
    assert "shape" in rows[1][1]


def test_the_database_refuses_a_file_without_its_cut(index: Indexer, repo: Repo) -> None:
    # law 17: what a publish refers to exists
    repo.commit(a_py=SHAPES)
    index(repo, name="r")
    with index.database.connect() as connection, pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute("delete from cut")


def test_scratch_folders_are_removed(index: Indexer, repo: Repo) -> None:
    abandoned = index.config.scratch / "run-abandoned"
    abandoned.mkdir(parents=True)
    (abandoned / "lock").touch()
    repo.commit(a_py=SHAPES)
    index(repo)
    assert list(index.config.scratch.iterdir()) == []
