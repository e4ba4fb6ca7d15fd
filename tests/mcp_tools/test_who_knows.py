"""who_knows: whom it names and with what evidence, what counts and what does not, what it says of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.errors import UsageError
from flows.select import Rules
from mcp_tools import people, render
from mcp_tools.index import Index
from mcp_tools.results import WhoResult
from mcp_tools.who_knows import MAX_LIMIT, who_knows
from tests.conftest import Indexer
from tests.repos import _ENV as ENV
from tests.repos import Repo
from tests.repos import git as run_git

RETRY = "def parse_retry_after(header):\n    return int(header)\n"
CACHE = "class PageCache:\n    def evict(self):\n        return self.oldest\n"
TOPIC = "parse_retry_after of a header"
DAY = 86_400
START = 1_700_000_000


class Team:
    """Commits by several people on given days."""

    def __init__(self, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repo, self._patch = repo, monkeypatch
        self._count = 0

    def commit(self, who: str, message: str = "change", day: float = 0, **files: str) -> str:
        name, _, email = who.partition(" <")
        for key, value in (("NAME", name), ("EMAIL", email.rstrip(">") or f"{name.split()[0].lower()}@example.com")):
            self._patch.setitem(ENV, f"GIT_AUTHOR_{key}", value)
        date = f"@{int(START + day * DAY)} +0000"
        self._patch.setenv("GIT_AUTHOR_DATE", date)
        self._patch.setenv("GIT_COMMITTER_DATE", date)
        self._count += 1
        files = {path: f"{text}# {self._count}\n" for path, text in files.items()}
        return self.repo.commit(message, **files)


@pytest.fixture
def team(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Team:
    return Team(repo, monkeypatch)


@pytest.fixture
def asked(index: Indexer) -> Iterator[Index]:
    with Index(index.config, embedder=index.embedder) as opened:
        yield opened


def names(answer: WhoResult) -> list[str]:
    """Return those who changed the files."""
    return [row.author for row in answer.result if not row.issues[0].startswith("active in ")]


def test_who_changed_the_code_behind_the_topic(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Ann Lee", "parse it", retry_py=RETRY)
    team.commit("Bob Ray", "cache pages", day=1, cache_py=CACHE)
    sha = team.commit("Ann Lee", "parse it well", day=2, retry_py=RETRY * 2)
    index(team.repo, name="acme/http")
    answer = who_knows(asked, "retry.py parse_retry_after")
    assert names(answer)[0] == "Ann Lee"
    first = answer.result[0]
    assert sha[:12] in first.issues and any(issue.startswith("retry.py#") for issue in first.issues)
    assert answer.evidence[0].model_dump() == {
        "author": "Ann Lee",
        "repo": "acme/http",
        "commit": sha[:12],
        "date": "2023-11-16",
        "path": "retry.py",
        "subject": "parse it well",
    }
    assert answer.note == "history of acme/http: complete"
    text = render.who_text(answer)
    for fact in ("Ann Lee", sha[:12], "2023-11-16", "retry.py", "parse it well", "acme/http", answer.note):
        assert fact in text
    assert "example.com" not in text  # nobody's address


def test_the_path_of_a_file_or_folder_is_a_topic(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Ann Lee", lib__retry_py=RETRY)
    team.commit("Bob Ray", app__cache_py=CACHE)
    index(team.repo)
    assert names(who_knows(asked, "lib/retry.py")) == ["Ann Lee"]
    assert names(who_knows(asked, "app/")) == ["Bob Ray"]
    for path in ("lib/nosuch.py", "nosuch/"):
        assert who_knows(asked, path).note.startswith(f"no file or folder {path} in ")
    assert "no file" not in who_knows(asked, "retry/backoff").note  # words


def test_who_is_active_elsewhere_comes_last(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Ann Lee", lib__retry_py=RETRY)
    for day in range(2000, 2005):
        team.commit("Bob Ray", day=day, app__cache_py=CACHE)
    team.commit("ci[bot]", day=2006, app__cache_py=CACHE)
    index(team.repo, name="acme/http")
    first, second = who_knows(asked, "lib/retry.py").result
    assert (first.author, second.author, second.issues) == ("Ann Lee", "Bob Ray", ["active in acme/http"])
    assert first.score >= second.score > 0


def test_lately_counts_more_than_long_ago(team: Team, index: Indexer, asked: Index) -> None:
    for day in range(4):
        team.commit("Ann Lee", day=day, retry_py=RETRY)
    for day in (1000, 1001):
        team.commit("Bob Ray", day=day, retry_py=RETRY)
    index(team.repo)
    assert names(who_knows(asked, TOPIC)) == ["Bob Ray", "Ann Lee"]


def test_age_counts_from_the_tip_not_from_now(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Ann Lee", day=-9000, retry_py=RETRY)
    index(team.repo)
    assert who_knows(asked, TOPIC).result[0].score == pytest.approx(1 + people.ACTIVE)


def test_co_authors_count_like_authors(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Ann Lee", "pair\n\nCo-authored-by: Bob Ray <bob@x.example>\nco-authored-by: Ann Lee <ann@example.com>",
                retry_py=RETRY)  # fmt: skip
    index(team.repo)
    answer = who_knows(asked, TOPIC)
    assert names(answer) == ["Ann Lee", "Bob Ray"]
    assert answer.result[0].score == answer.result[1].score


def test_one_person_under_several_names(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("ann <ann@old.example>", retry_py=RETRY)
    team.commit("Ann Lee <ann@old.example>", day=1, retry_py=RETRY)
    team.commit("Ann Lee <ann@new.example>", day=2, retry_py=RETRY)
    team.commit("al <al@x.example>", day=3, retry_py=RETRY)
    team.repo.write(".mailmap", "Ann Lee <ann@new.example> <AL@x.example>\n")
    team.commit("Ann Lee", day=4)
    index(team.repo)
    assert names(who_knows(asked, TOPIC)) == ["Ann Lee"]


@pytest.mark.parametrize(
    "who",
    [
        "dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>",
        "renovate <renovate@whitesourcesoftware.com>",
        "acme-bot <ci@acme.example>",
        "Deploy Bot <d@acme.example>",
        "GitHub <noreply@github.com>",
        "ghost <ghost@users.noreply.github.com>",
    ],
)
def test_bots_do_not_count(team: Team, index: Indexer, asked: Index, who: str) -> None:
    team.commit("Ann Lee", retry_py=RETRY)
    for day in range(3):
        team.commit(who, day=day, retry_py=RETRY)
    index(team.repo)
    assert names(who_knows(asked, TOPIC)) == ["Ann Lee"]


@pytest.mark.parametrize("who", ["Abbot Lee", "Talbot Bottom <rob.otto@x.example>", "Robot Smithson <rs@x.example>"])
def test_people_are_no_bots(who: str) -> None:
    name, _, email = who.partition(" <")
    assert not people.is_bot((name, email.rstrip(">")))


def test_a_commit_that_touches_everything_says_nothing(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Ann Lee", retry_py=RETRY)
    for number in range(people.WIDEST):
        team.repo.write(f"src/f{number}.py", f"x = {number}\n")
    team.commit("Bob Ray", "format", day=1, retry_py=RETRY * 2)
    index(team.repo)
    assert names(who_knows(asked, "retry.py parse_retry_after")) == ["Ann Lee"]


def test_renamed_files_keep_their_people(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Ann Lee", retry_py=RETRY)
    (team.repo.path / "lib").mkdir()
    team.repo.git("mv", "retry.py", "lib/after.py")
    team.commit("Bob Ray", "move", day=1)
    index(team.repo)
    answer = who_knows(asked, "lib/after.py")
    assert sorted(names(answer)) == ["Ann Lee", "Bob Ray"]
    assert {item.path for item in answer.evidence} == {"retry.py", "lib/after.py"}


def test_denied_paths_are_never_named(team: Team, index: Indexer, asked: Index) -> None:
    team.commit("Eve Fox", "write secret/plan.py", secret__plan_py=RETRY)
    team.repo.git("mv", "secret", "open")
    team.commit("Ann Lee", "open secret/plan.py", day=1)
    team.commit("Ann Lee", "better plan.md", day=2, open__plan_py=RETRY)
    team.commit("Bob Ray", "see secret/notes.md", day=3, open__plan_py=RETRY, secret__notes_md="no")
    team.repo.write("CODEOWNERS", "/secret/ @eve\n/open/ @ann\n")
    team.commit("Bob Ray", "owners", day=4)
    index(team.repo, rules=Rules(deny=("secret/",)))
    answer = who_knows(asked, "open/plan.py")
    assert names(answer) == ["Bob Ray", "Ann Lee"] or names(answer) == ["Ann Lee", "Bob Ray"]
    assert "secret" not in answer.model_dump_json() and "@eve" not in answer.model_dump_json()
    assert "better plan.md" in answer.model_dump_json()


def test_codeowners_are_evidence(team: Team, index: Indexer, asked: Index) -> None:
    team.repo.write(".github/CODEOWNERS", "* @acme/all\nretry.py @ann bob@x.example\n")
    team.commit("Ann Lee", retry_py=RETRY)
    index(team.repo)
    owners = [item for item in who_knows(asked, TOPIC).evidence if not item.commit]
    assert [(item.author, item.path, item.subject) for item in owners] == [
        ("@ann bob@x.example", "retry.py", "CODEOWNERS"),
        ("@acme/all", ".github/CODEOWNERS", "CODEOWNERS"),
    ]
    team.repo.write(".github/CODEOWNERS", "* @else\n")
    team.commit("Ann Lee", day=1)
    index(team.repo)
    assert [item.author for item in who_knows(asked, TOPIC).evidence if not item.commit] == ["@else"] * 2


def test_only_commits_behind_the_published_one_count(team: Team, index: Indexer, asked: Index) -> None:
    first = team.commit("Ann Lee", retry_py=RETRY)
    team.commit("Bob Ray", day=1, retry_py=RETRY)
    index(team.repo)
    assert sorted(names(who_knows(asked, TOPIC))) == ["Ann Lee", "Bob Ray"]
    team.repo.git("reset", "-q", "--hard", first)
    index(team.repo)
    assert names(who_knows(asked, TOPIC)) == ["Ann Lee"]


def test_equal_indexes_give_equal_answers(team: Team, index: Indexer, asked: Index) -> None:
    for number, who in enumerate(["Ann Lee", "Bob Ray", "Cy Day", "Dee Fox"] * 3):
        team.commit(who, day=number % 2, retry_py=RETRY, cache_py=CACHE)
    index(team.repo, name="one")
    first = who_knows(asked, TOPIC, limit=MAX_LIMIT)
    assert who_knows(asked, TOPIC, limit=MAX_LIMIT) == first
    with index.database.connect() as connection:
        connection.execute("delete from repo")
    index(team.repo, name="one")
    assert who_knows(asked, TOPIC, limit=MAX_LIMIT) == first
    assert who_knows(asked, TOPIC, limit=2).result == first.result[:2]


def test_an_address_is_shown_only_where_there_is_no_name() -> None:
    assert people._best_name({("", "x@y.example"): 1.0}) == "x@y.example"
    assert people._best_name({("", "x@y.example"): 5.0, ("Ann", "x@y.example"): 1.0}) == "Ann"


# --- nothing ---------------------------------------------------------------------------------------------------------


def test_without_history_it_says_so(team: Team, index: Indexer, asked: Index, tmp_path: Path) -> None:
    assert who_knows(asked, TOPIC).note == render.EMPTY_INDEX
    team.commit("Ann Lee", retry_py=RETRY)
    team.commit("Ann Lee", day=1, retry_py=RETRY)
    run_git(tmp_path, "clone", "-q", "--depth=1", f"file://{team.repo.path}", "shallow")
    index(tmp_path / "shallow", name="r")
    answer = who_knows(asked, TOPIC)
    assert not answer.result and not answer.evidence
    assert answer.note == (
        f"Nobody is known to have changed the files that answer {TOPIC!r}. "
        "history of r: none, sync it from a whole clone"
    )
    index(team.repo, name="r")
    third = team.commit("Ann Lee", day=2, cache_py=CACHE)
    index.history = 0
    index(team.repo, name="r")
    answer = who_knows(asked, TOPIC)
    assert names(answer) == ["Ann Lee"]
    assert f"up to {team.repo.git('rev-parse', 'HEAD~')[:12]}; the published commit is {third[:12]}" in answer.note


@pytest.mark.parametrize(
    ("topic", "options", "message"),
    [
        ("  ", {}, "empty"),
        ("x", {"limit": 0}, "limit is 0"),
        ("x", {"limit": 21}, "1 to 20"),
        ("x", {"repo": "no"}, "no"),
    ],
)
def test_bad_requests(
    team: Team, index: Indexer, asked: Index, topic: str, options: dict[str, object], message: str
) -> None:
    team.commit("Ann Lee", retry_py=RETRY)
    index(team.repo)
    with pytest.raises(UsageError, match=message):
        who_knows(asked, topic, **options)  # type: ignore[arg-type]
