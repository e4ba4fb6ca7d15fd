"""repos.d: every mistake has a place and a fix, nothing hostile gets through, and globs mean what .gitignore says."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import git
from flows.config import Configuration, RepoConfig, load, load_file
from flows.config.document import MAX_BYTES
from flows.config.model import RepoFile, json_schema, keys
from flows.errors import ConfigError, SchemaMismatch, UsageError
from flows.policy import Policy
from flows.select import Denied, Keep, Rules, by_path
from tests.repos import Repo

ROOT = Path(__file__).parent.parent.parent
HEAD = "name: acme/tool\nurl: https://github.com/acme/tool.git\n"  # two lines: what is added begins in line 3


def write(folder: Path, **files: str | bytes) -> Path:
    """Write NAME.yaml for each keyword."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def problems(folder: Path) -> list[str]:
    """Return what is wrong with ``folder``, without the path of the folder."""
    with pytest.raises(ConfigError) as caught:
        load(folder)
    assert all(str(problem).isprintable() for problem in caught.value.problems)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


MISTAKES = [
    # keys
    ("brnches: [main]", "3:1: unknown key 'brnches'; did you mean 'branches'?"),
    ("Max-File-Size: 1MB", "3:1: unknown key 'Max-File-Size'; did you mean 'max_file_size'?"),
    ("exclude: [x]", "3:1: unknown key 'exclude'; did you mean 'deny'?"),
    ("zzz: 1", "3:1: unknown key 'zzz': the keys are name, url, branches, allow, deny, projects,"),
    ("owner: a\nowner: b", "4:1: the key 'owner' stands in line 3 already: keep one of the two"),
    ("<<: {owner: a}", "3:1: merge keys (<<) are not used here: write the keys out"),
    # types
    ("branches: main", "3:11: `branches` must be a list, not 'main': write `branches: ['main']`"),
    ("branches: [v, 1.10]", "3:15: `branches`, entry 2, must be text, not the number 1.10: put it in quotes, '1.10'"),
    ("allow:", "3:7: `allow` must be a list, not empty: write the entries below it, each as `- entry`, or remove"),
    ("deny: {a: b}", "3:7: `deny` must be a list, not a mapping: write each entry as `- entry`"),
    ("deny: [[a]]", "3:8: `deny`, entry 1, must be text, not a list: give one text, in quotes if it begins with ["),
    ("deny:\n- #x", "4:2: `deny`, entry 1, must be text, not empty: give a value (in quotes if it begins with #"),
    ("include_generated: yes", "3:20: `include_generated` must be true or false, not 'yes': write `include_generated:"),
    ("include_vendored: 0", "3:19: `include_vendored` must be true or false, not the number 0: write `include_vendore"),
    ("owner: true", "3:8: `owner` must be text, not true: put it in quotes, 'true'"),
    # sizes
    ("max_file_size: huge", "3:16: `max_file_size` 'huge' is not a size: write for example 500 kB, 1MB or a number"),
    ("max_file_size: 5 GB", "3:16: `max_file_size` '5 GB' is out of bounds: write a size from 1 kB to 100 MB"),
    ("max_file_size: 0", "3:16: `max_file_size` '0' is out of bounds"),
    ("max_file_size: -1", "3:16: `max_file_size` '-1' is not a size"),
    ("max_file_size: true", "3:16: `max_file_size` must be a size"),
    # globs
    ("allow: []", "3:8: `allow` is empty and would let nothing in: remove the line to let everything in (or write ['*"),
    ("allow: ['!x']", "3:8: `allow` only excludes, so nothing would be let in: begin the list with '*', or use `deny`"),
    ("deny: ['[z-a]']", "3:8: `deny`, entry 1, '[z-a]' is not a valid glob"),
    ("deny: ['[[:alpha:]]']", "3:8: `deny`, entry 1, '[[:alpha:]]' is not a valid glob"),
    ("deny: ['[a']", "3:8: `deny`, entry 1, '[a' matches nothing: close the bracket"),
    ("deny: ['#x']", "3:8: `deny`, entry 1, '#x' is a comment in gitignore syntax: write '\\#x'"),
    ("deny: [./src]", "3:8: `deny`, entry 1, './src' matches nothing, since paths begin at the repository's root: wri"),
    ("deny: [a, ' ']", "3:11: `deny`, entry 2, ' ' matches nothing: remove it"),
    ("deny: ['!']", "3:8: `deny`, entry 1, '!' matches nothing"),
    ("deny: ['a\\']", "3:8: `deny`, entry 1, 'a\\' is not a valid glob"),
    (f"deny: [{'x' * 501}]", "3:8: `deny`, entry 1, has more than 500 characters: shorten it"),
    (f"deny: [{'x,' * 1001}]", "3:7: `deny` has more than 1000 entries: use globs, or split the list"),
    # branches
    ("branches: ['a b']", "3:12: `branches`, entry 1, 'a b' cannot name a branch, because of ' '"),
    ("branches: [-x]", "3:12: `branches`, entry 1, '-x' cannot name a branch, because of '-'"),
    ("branches: [a..b]", "3:12: `branches`, entry 1, 'a..b' cannot name a branch, because of '..'"),
    ("branches: ['[a']", "3:12: `branches`, entry 1, '[a' cannot name a branch, since it is empty or a bracket is ope"),
    ("branches: [refs/heads/x]", "3:12: `branches`, entry 1, 'refs/heads/x' must be the short name: write 'x'"),
    ("branches: ['!x']", "3:11: `branches` only excludes, so no branch is left"),
    # other values
    ("languages: [pyhton]", "3:13: `languages`, entry 1, 'pyhton' is not a known language; did you mean 'python'?"),
    ("projects: [a b]", "3:12: `projects`, entry 1, 'a b' must be 1 to 100 letters, digits and . _ -: write for examp"),
    ("owner: ' '", "3:8: `owner` must have 1 to 200 characters"),
    ("credentials_env: ghp_s3cret", "3:18: `credentials_env` must be the name of an environment variable"),
    # YAML
    ("deny:\n- *.py\n- !x", "4:3: without quotes, '*.py' refers to an anchor '&.py' above, which is not there: put a"),
    ("deny:\n- !x y", "4:3: without quotes, '!x' is a YAML tag: remove it, or put the text in quotes"),
    ("owner: !!python/object/apply:os.system [x]", "3:8: without quotes, '!!python/object/apply:os.system' is a YAML"),
    ("deny:\n- [a-z]*.py", "4:8: is not valid YAML: expected <block end>, but found '<alias>': check the indentation,"),
    ("deny:\n\t- x", "4:1: is not valid YAML: found character '\\t' that cannot start any token: a tab cannot indent"),
    ("owner: a: b", "3:9: is not valid YAML: mapping values are not allowed here: check the indentation, and put"),
    ("owner: 'x", "3:10: is not valid YAML: found unexpected end of stream: close the quotes"),
    ("owner: @x", "3:8: is not valid YAML: found character '@' that cannot start any token: put the text in quotes"),
    ('owner: "\\UFFFFFFFF"', "3:1: is not valid YAML from here on: check quotes and escapes"),
    ('owner: "a\\0b"', "3:8: control characters are not allowed in a value"),
    ('owner: "a\\ud800"', "3:8: control characters are not allowed in a value"),
    ("owner: |\n  a\n  b", "3:8: a value is one line here: write it on one line, without | or >"),
    ("--- \nname: b", "3:1: a second document begins here: keep one repository a file"),
    ("? [a]\n: b", "3:3: a key is plain text here"),
    ("deny: &a [*a]", "3:11: without quotes, '*a' refers to an anchor '&a' above, which is not there"),
    ("deny: " + "[" * 40, "3:17: values are nested more than 10 deep: no key of this file needs that"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), MISTAKES, ids=lambda value: value[:40])
def test_a_mistake_has_a_place_and_a_fix(tmp_path: Path, text: str, expected: str) -> None:
    found = problems(write(tmp_path / "repos.d", tool=HEAD + text))
    assert found[0].startswith(f"tool.yaml:{expected}")


NAMES_AND_URLS = [
    ("name: a b\nurl: /r", "1:7: `name` 'a b' cannot name a repository: write letters, digits and . _ - in parts"),
    ("name: -a\nurl: /r", "1:7: `name` '-a' cannot name a repository: write letters"),
    ("name: a//b\nurl: /r", "1:7: `name` 'a//b' cannot name a repository: write letters"),
    ("name: ../a\nurl: /r", "1:7: `name` '../a' begins with '.' or contains '..': write letters, digits"),
    ("name: .a\nurl: /r", "1:7: `name` '.a' begins with '.' or contains"),
    ("name: ''\nurl: /r", "1:7: `name` must have 1 to 200 characters"),
    (f"name: {'x' * 201}\nurl: /r", "1:7: `name` must have 1 to 200 characters"),
    ("name: 12\nurl: /r", "1:7: `name` must be text, not the number 12: put it in quotes, '12'"),
    ("url: /r", "1:1: `name` is missing: add `name: owner/project`"),
    ("name: a", "1:1: `url` is missing: add `url: https://host/owner/project.git`"),
    ("name: a\nurl: ../r", "2:6: `url` must be an https://, ssh:// or file:// URL, user@host:path or an absolute path"),
    ("name: a\nurl: acme/tool", "2:6: `url` must be an https://, ssh:// or file:// URL, user@host:path or an absolute "
     "path: write for example https://github.com/acme/tool.git"),
    ("name: a\nurl: file://r", "2:6: `url` must name an absolute path: write file:///path/to/repository"),
    ("name: a\nurl: ext::sh -c x", "2:6: `url` cannot be fetched: write an https://"),
    ("name: a\nurl: git://h/r", "2:6: `url` cannot be fetched: write an https://"),
    ("name: a\nurl: http://h/r", "2:6: `url` is not encrypted: write https:// instead of http://"),
    ("name: a\nurl: --upload-pack=x", "2:6: `url` has a host that git would take as an option"),
    ("name: a\nurl: ssh://-oProxyCommand=x/r", "2:6: `url` has a host that git would take as an option"),
    ("- a", "1:1: a file is a list of `key: value` lines, not a list: begin with `name: owner/project`"),
    ("just words", "1:1: a file is a list of `key: value` lines, not 'just words'"),
    ("", "1:1: is empty: write `name:` and `url:`, or remove the file"),
    ("# nothing but a comment\n", "1:1: is empty"),
    ("%YAML 1.1\n---\nname: a\nurl: /r", "2:1: %YAML and %TAG lines are not used here (files are YAML 1.2)"),
    (b"name: a\n  \xff", "2:3: is not UTF-8: save the file as UTF-8"),
    ("name: a".encode("utf-16"), "1:1: is not UTF-8 (it looks like UTF-16)"),
    (b"name: a\nurl: \0", "2:6: the character U+0000 is not allowed in YAML: remove it"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), NAMES_AND_URLS, ids=lambda value: str(value)[:40])
def test_a_wrong_name_or_url_has_a_place_and_a_fix(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert problems(write(tmp_path / "repos.d", tool=text))[0].startswith(f"tool.yaml:{expected}")


@pytest.mark.parametrize(
    "url",
    [
        "https://user:s3cret@host/r.git",
        "https://s3cret@host/r.git",
        "HTTPS://s3cret@host/r.git",
        "ssh://git:s3cret@host/r.git",
        "git:s3cret@host:r.git",
        "https://user:s3cret/x@host/r.git",
        "https://host/r.git?private_token=s3cret",
        "http://user:s3cret@host/r",
        "https://user:s3cret@ho st/r",
    ],
)
@pytest.mark.parametrize("key", ["url", "name", "owner", "deny: [{}]\nbranches", "projects", "credentials_env", "{}"])
def test_no_message_shows_a_secret(tmp_path: Path, key: str, url: str) -> None:
    folder = write(tmp_path / "repos.d", tool=f"{key.format(json.dumps(url))}: {json.dumps(url)}\nx: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(folder)
    assert "s3cret" not in str(caught.value)
    if key == "url":
        assert "`url` must not" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["https://h/a/b.git", "https://h:8443/@scope/b", "ssh://git@h:22/a", "git@h:a/b.git", "h:a", "/srv/a", "file:///a"],
)
def test_every_usual_url_is_accepted(tmp_path: Path, url: str) -> None:
    assert load(write(tmp_path / "repos.d", a=f"name: a\nurl: {url}\n")).repos[0].url == url


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "repos.d",
        _defaults="name: x\nowner: [a]\n",
        a="name: Acme/Tool\nurl: /a\n",
        b="name: acme/tool\nurl: /b\n",
        c="nam: c\nallow: []\n",
        d="'",
    )
    with pytest.raises(ConfigError) as caught:
        load(folder)
    assert caught.value.exit_code == UsageError.exit_code == 2
    first, *lines = str(caught.value).replace(f"{folder}/", "").split("\n")
    assert first == "8 problems in the configuration"
    assert sorted(line.split(": ")[0] for line in lines) == [
        "_defaults.yaml:1:1", "_defaults.yaml:2:8", "b.yaml:1:7", "c.yaml:1:1", "c.yaml:1:1", "c.yaml:1:1",
        "c.yaml:2:8", "d.yaml:1:2",
    ]  # fmt: skip
    assert "b.yaml:1:7: the name 'acme/tool' (there 'Acme/Tool') is taken by a.yaml: rename one" in lines
    assert "_defaults.yaml:1:1: `name` belongs in the file of one repository: remove it here" in lines


def test_a_long_report_is_cut_in_the_text_but_not_in_the_problems(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path / "repos.d", a=HEAD + "".join(f"x{i}: 1\n" for i in range(150))))
    assert len(caught.value.problems) == 150
    assert str(caught.value).endswith("\n... and 50 more")


def test_aliases_are_bounded(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    assert "aliases expand to more than 10000 values" in problems(write(tmp_path / "r", a="\n".join(lines)))[0]
    shared = write(tmp_path / "s", a=HEAD + "branches: &main [main]\nprojects: *main\n")
    assert load(shared).repos[0].projects == ("main",)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    assert problems(write(tmp_path / "r", a=HEAD + "#" * MAX_BYTES)) == [
        "a.yaml: is larger than 64000 bytes: split it into one file a repository"
    ]


def test_yaml_of_any_editor_is_read(tmp_path: Path) -> None:
    text = '\ufeff---\nname: "a"\nurl: /r\nowner: no # not a boolean\nbranches: [on, y, "true"]\n...\n'
    repo = load(write(tmp_path / "r", a=text.replace("\n", "\r\n"))).repos[0]
    assert (repo.owner, repo.branches) == ("no", ("on", "y", "true"))


FULL = RepoConfig(
    name="acme/tool",
    url="https://github.com/acme/tool.git",
    branches=("main", "release/*", "!release/old"),
    rules=Rules(
        allow=("src/",),
        deny=("*.pem", "gen/"),
        max_bytes=500_000,
        languages=("python",),
        include_generated=True,
        include_vendored=True,
    ),
    projects=("payments",),
    owner="platform",
    credentials_env="ACME_TOKEN",
)


def test_a_repository_file_replaces_the_defaults_but_adds_to_their_deny_list(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "r",
        _defaults="branches: [x]\nallow: [a]\ndeny: ['*.pem']\nprojects: [all]\nowner: platform\n"
        "max_file_size: 1.5MiB\nlanguages: [go]\ninclude_generated: true\n",
        tool=HEAD + "branches: [main, release/*, '!release/old']\nallow: [src/]\ndeny: [gen/]\nprojects: [payments]\n"
        "max_file_size: 500 kB\nlanguages: [python]\ncredentials_env: ACME_TOKEN\ninclude_vendored: true\n",
        plain="name: plain\nurl: /r\nprojects: []\nbranches: []\n",
    )
    plain, full = sorted(load(folder).repos, key=lambda repo: repo != FULL and -1)
    assert full == FULL == load_file(folder / "tool.yaml")
    assert plain.rules == Rules(
        allow=("a",), deny=("*.pem",), max_bytes=3 << 19, languages=("go",), include_generated=True
    )
    assert (plain.branches, plain.projects, plain.owner) == ((), (), "platform")


@pytest.mark.parametrize(
    ("text", "size"), [("1MB", 10**6), ("500 kB", 500_000), ("2048", 2048), ("1MiB", 1 << 20), ("0.5m", 500_000)]
)
def test_sizes(tmp_path: Path, text: str, size: int) -> None:
    assert load(write(tmp_path / "r", a=HEAD + f"max_file_size: {text}\n")).repos[0].rules.max_bytes == size


def test_a_stored_repository_comes_back_equal_and_tolerates_other_versions() -> None:
    stored = json.loads(json.dumps(FULL.to_json()))
    assert RepoConfig.from_json(stored) == FULL
    assert RepoConfig.from_json(stored | {"a_later_field": 1}) == FULL
    assert RepoConfig.from_json({"format": 1, "name": "a", "url": "/r"}) == RepoConfig("a", "/r")
    with pytest.raises(SchemaMismatch, match="newer gitstrata"):
        RepoConfig.from_json(stored | {"format": 2})


def test_what_looks_like_a_slip_is_hinted(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", x="name: acme/tool\nurl: /r\nallow: ['*.py', '!tests/']\n")
    for name in ("a.ymal", "b.yaml.bak", ".c.yaml", "README.md", "schema.json", "pom.xml"):
        (folder / name).touch()
    write(folder / "team", a=HEAD)
    hints = [str(hint).removeprefix(f"{folder}/") for hint in load(folder).hints]
    ignored = "is ignored: a repository file ends in .yaml and does not begin with a dot"
    assert hints == [
        f".c.yaml: {ignored}",
        f"a.ymal: {ignored}",
        f"b.yaml.bak: {ignored}",
        "team: files in a folder below are ignored: move them up",
        "x.yaml:1:7: the file is found more easily as acme+tool.yaml",
        "x.yaml:3:17: '!tests/' does not leave out files that a glob above matches: add 'tests/' to `deny`",
    ]


def test_files_that_are_not_files_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", good="name: good\nurl: /r\n", _default="owner: x\n")
    (folder / "_defaults.yml").write_text("owner: x\n")
    (folder / "_defaults.yaml").write_text("owner: x\n")
    (folder / "dir.yaml").mkdir()
    (folder / "gone.yaml").symlink_to("nowhere")
    (folder / "hosts.yaml").symlink_to("/etc/hosts")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "same.yaml").symlink_to("good.yaml")  # as Kubernetes mounts files: links within the folder
    assert problems(folder) == [
        "_default.yaml: names that begin with _ are reserved: rename it, or write _defaults.yaml",
        "dir.yaml: is not a regular file in this folder: put the file here",
        "gone.yaml: cannot be read: No such file or directory",
        "hosts.yaml: is not a regular file in this folder: put the file here",
        "loop.yaml: cannot be read: it is a circle of links",
        "_defaults.yml: stands beside _defaults.yaml: keep one of the two",
        "same.yaml:1:7: the name 'good' is taken by good.yaml: rename one",
    ]
    assert "is not a folder" in problems(tmp_path / "nowhere")[0]


# --- source and version --------------------------------------------------------------------------------------------


def is_now(loaded: Configuration) -> bool:
    return loaded.version.sha == "" and datetime.now(UTC) - loaded.version.committed_at < timedelta(minutes=1)


def test_the_version_is_the_commit_that_holds_exactly_these_files(repo: Repo) -> None:
    folder = repo.path / "conf" / "repos.d"
    repo.git("remote", "add", "origin", "https://user:tok@github.com/acme/conf.git")
    repo.commit()
    write(folder.parent)
    write(folder, a=HEAD)
    assert is_now(load(folder))  # not committed yet
    sha = repo.commit()
    first = load(folder)
    assert (first.source, first.version.sha) == ("github.com/acme/conf:conf/repos.d", sha)
    assert first.version.committed_at == git.resolve(git.open_repository(repo.path)).committed_at
    (folder / "README.md").write_text("not configuration")
    (folder / "a.yaml").write_text(HEAD.replace("\n", "\r\n"))  # a checkout with other line ends
    assert load(folder).version.sha == sha
    write(folder, a=HEAD + "owner: x\n")
    assert is_now(load(folder))  # changed
    write(folder, a=HEAD, b="name: b\nurl: /b\n")
    assert is_now(load(folder))  # one more
    (folder / "b.yaml").unlink()
    (folder / "a.yaml").unlink()
    assert is_now(load(folder))  # one less
    assert load(folder).source == first.source


def test_without_a_remote_or_git_the_source_is_a_path(repo: Repo, tmp_path: Path) -> None:
    assert load(write(repo.path, a=HEAD)).source == str(repo.path)  # and no commit yet
    sha = repo.commit()
    assert load(repo.path).version.sha == sha
    outside = load(write(tmp_path / "plain", a=HEAD))
    assert outside.source == str(tmp_path / "plain")
    assert is_now(outside)


# --- what ships ----------------------------------------------------------------------------------------------------


def test_the_folder_that_ships_is_valid_and_keeps_what_people_write(tmp_path: Path) -> None:
    assert load(ROOT / "repos.d").hints == ()
    folder = write(tmp_path / "r", a=HEAD, _defaults=(ROOT / "repos.d/_defaults.yaml").read_bytes())
    rules = load(folder).repos[0].rules
    kept = "src/a.py vendor/x/y.go build/b.py dist/d.js go.sum .github/workflows/ci.yml .env.example docs/env.md"
    denied = "node_modules/a/b.js web/node_modules/a.js .env app/.env.prod id_rsa .venv/lib/a.py a/__pycache__/b.pyc"
    assert [path for path in kept.split() if rules.denies(path)] == []
    assert [path for path in denied.split() if not rules.denies(path)] == []


def test_the_schema_is_up_to_date() -> None:
    message = "run: python scripts/repos_schema.py"
    assert (ROOT / "repos.d/schema.json").read_text(encoding="utf-8") == json_schema(), message


def test_the_readme_names_every_key_and_its_example_is_valid(tmp_path: Path) -> None:
    readme = (ROOT / "repos.d/README.md").read_text()
    table = {
        key
        for line in readme.split("\n")
        if line.startswith("| `")
        for key in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert table == set(keys(RepoFile))
    example = re.search(r"```yaml\n(.*?)```", readme, re.S)
    assert example and load(write(tmp_path / "r", a=example.group(1))).repos[0].name == "acme/billing"


# --- globs ---------------------------------------------------------------------------------------------------------

GLOBS = [
    (["*.py"], "a.py s/t/a.py", "a.pyc"),  # a glob without a slash matches at any depth
    (["/*.py"], "a.py", "s/a.py"),  # a leading slash ties it to the root
    (["a*b"], "axb ab s/ab", "a/b a/x/b"),  # * does not cross /
    (["docs/*.md"], "docs/a.md", "docs/s/a.md s/docs/a.md"),  # a slash inside ties it to the root too
    (["docs/**/a.md"], "docs/a.md docs/s/t/a.md", "s/docs/a.md"),  # ** crosses
    (["**/gen"], "gen gen/x s/gen s/t/gen/x", "gens"),
    (["docs/**"], "docs/a docs/s/a", "docs s/docs/a"),
    (["fo?"], "foo s/foo fob", "fo fooo fo/x"),  # ? is one character, not /
    (["[a-c].txt"], "a.txt s/c.txt", "d.txt ab.txt"),
    (["[!a-c].txt"], "d.txt", "a.txt"),
    (["build/"], "build/x s/build/x", "build s/build builds/x"),  # a trailing slash: folders only
    (["build"], "build build/x s/build", "builds"),
    (["*.log", "!keep.log"], "a.log", "keep.log s/keep.log"),  # the last match decides
    (["!keep.log", "*.log"], "a.log keep.log", ""),
    (["docs/*", "!docs/keep.md"], "docs/a", "docs/keep.md"),
    (["\\#x"], "#x", "x"),
    (["\\!x"], "!x", "x"),
    (["x "], "x", "x "),  # a trailing space counts ...
    (["x\\ "], "x ", "x"),  # ... only when escaped
    (["*"], "a s/a .hidden", ""),
    (["a\\*b"], "a*b", "axb"),
    (["Docs/"], "Docs/a", "docs/a"),
    (["app"], "app app/x", "app-old app-old/x"),
]


@pytest.mark.parametrize(("globs", "matched", "others"), GLOBS, ids=lambda value: str(value))
def test_globs_mean_what_git_says(repo: Repo, globs: list[str], matched: str, others: str) -> None:
    split = re.compile(r" (?! |$)")  # "x " keeps its space
    matched_paths, other_paths = ([path for path in split.split(paths) if path] for paths in (matched, others))
    paths = [*matched_paths, *other_paths]
    (repo.path / ".git/info/exclude").write_text("\n".join(globs) + "\n")
    ignored = repo.git("check-ignore", "--no-index", "-z", "--stdin", stdin="\0".join(paths).encode())
    assert ignored.rstrip("\0").split("\0") == matched_paths
    assert [path for path in paths if Rules(deny=tuple(globs)).denies(path)] == matched_paths
    assert [path for path in paths if not Rules(allow=tuple(globs)).denies(path)] == matched_paths
    assert all(Rules(allow=tuple(globs), deny=("*",)).denies(path) for path in paths)  # deny wins


def test_unlike_in_git_a_file_of_a_denied_folder_can_be_let_in_again() -> None:
    rules = Rules(deny=("docs/", "!docs/keep.md"))
    assert rules.denies("docs/a.md")
    assert not rules.denies("docs/keep.md")


def kept(repo: Repo, rules: Rules) -> set[str]:
    repository = git.open_repository(repo.path)
    entries = git.list_tree(repository, git.resolve(repository).sha)
    judged = {entry.path.decode(): by_path(entry, rules, Policy()) for entry in entries}
    assert all(isinstance(verdict, Keep | Denied) for verdict in judged.values())
    return {path for path, verdict in judged.items() if isinstance(verdict, Keep)}


def test_a_dockerignore_of_the_repository_has_no_say_and_deny_can_remove_everything(repo: Repo) -> None:
    repo.write(".dockerignore", "*\n")
    repo.write("src/a.py", "pass\n")
    repo.commit()
    assert kept(repo, Rules()) == {".dockerignore", "src/a.py"}
    assert kept(repo, Rules(deny=("*",))) == set()


@pytest.mark.parametrize("above", ["build", "target", "vendor", "node_modules"])
def test_where_the_clone_lies_does_not_matter(tmp_path: Path, above: str) -> None:
    (tmp_path / above).mkdir()
    repo = Repo(tmp_path / above / "clone")
    repo.write(f"{above}/x.py", "pass\n")
    repo.commit("first", a_py="pass\n")
    assert kept(repo, Rules(deny=(f"{above}/", f"/{above}/", f"**/{above}/**"))) == {"a.py"}


# --- anything at all -----------------------------------------------------------------------------------------------

WORDS = "name url allow deny branches owner max_file_size a /r [ ] { } , ' | > *a ! # ? 1 0x 1MB true ~ << @ * **/ .."
PIECES = [
    *WORDS.split(),
    ": ",
    ":\n",
    "- ",
    "\n",
    "  ",
    '"',
    "&a ",
    "!!int ",
    "%YAML 1.2\n",
    "---\n",
    "\\x",
    "\\U",
    "\t",
]
PIECES += ["\r", "\ufeff", "\u2028", "\x85", "\ud7ff"]


@given(
    st.one_of(
        st.binary(), st.text().map(str.encode), st.lists(st.sampled_from(PIECES)).map(lambda p: "".join(p).encode())
    )
)
def test_any_bytes_are_a_configuration_or_problems(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    for files in (
        {"_defaults": data, "a": HEAD},
        {"_defaults": "", "a": data},
        {"_defaults": "", "a": HEAD.encode() + data},
    ):
        write(folder, **files)  # type: ignore[arg-type]
        try:
            assert isinstance(load(folder), Configuration)
        except ConfigError as error:
            assert all(str(problem).isprintable() and problem.line >= 0 for problem in error.problems)
