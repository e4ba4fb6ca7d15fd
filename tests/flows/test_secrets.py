"""Masking: what is found, what is not, that lines stay, and that nothing gets past it into the database."""

from __future__ import annotations

import json
import random
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flows import decode, plan, secrets
from flows.secrets import mask
from flows.select import Rules
from tests.conftest import Indexer
from tests.flows.test_selection import KEY
from tests.flows.test_sync import paths
from tests.repos import Repo

_chance = random.Random(1)


def made_up(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_chance.choice(alphabet) for _ in range(length))


HEX = "0123456789abcdef"
# The text, and the part of it that must go.
SECRETS: list[tuple[str, str]] = [
    (f"{before}{token}{after}", token)
    for token in (
        "AKIA" + made_up(16, string.ascii_uppercase),
        "ghp_" + made_up(36),
        "github_pat_" + made_up(82),
        "glpat-" + made_up(20),
        "xoxb-" + made_up(12, string.digits) + "-" + made_up(24),
        "sk_live_" + made_up(24),
        "AIza" + made_up(35),
        "sk-ant-api03-" + made_up(60),
        "sk-proj-" + made_up(20) + "T3BlbkFJ" + made_up(20),
        "npm_" + made_up(36),
        "pypi-AgEIcHlwaS5vcmc" + made_up(60),
        "SG." + made_up(22) + "." + made_up(43),
        "eyJ" + made_up(20) + ".eyJ" + made_up(30) + "." + made_up(40),
    )
    for before, after in (("", ""), ("key = '", "'\n"), ("# use ", " here"), ("é(", ")"), ("key_", "."), ("a-_", "\n"))
] + [
    (text.replace("@", token), token)
    for text, token in (
        ("AWS_SECRET_ACCESS_KEY=@\n", made_up(40)),
        ("postgres://admin:@@db/x".replace("@@", "@\x00"), "hunter2-x"),
        ('password = "@"', made_up(24)),
        ("SECRET_KEY: @\n", made_up(32, HEX)),
        ("'api_key' => '@',", made_up(32, HEX)),
        ('authToken := "@"', made_up(30)),
        ("//registry.npmjs.org/:_authToken=@\n", made_up(36)),
        ("https://hooks.slack.com/services/@", f"T{made_up(9)}/B{made_up(9)}/{made_up(24)}"),
    )
]
SECRETS = [(text.replace("\x00", "@"), token) for text, token in SECRETS]
SECRETS += [
    ("url = 'postgres://admin:p@ssw0rd@db/x'", "p@ssw0rd"),
    ("redis://:a@b@c@localhost:6379/0\n", "a@b@c"),
    ("amqp://u:hunter2@h1?from=me@example.org", "hunter2"),
    ("https://u:hunter2@h1,me@example.org", "hunter2"),
    (f"old_npm_{'a1' * 18}_new", f"npm_{'a1' * 18}"),
]

# What looks like one and is none.
NO_SECRETS = [
    "password = getpass.getpass()",
    'token = "refresh_token_expired_error"',
    'SECRET_KEY = "dev"',
    "secret_name: projects/acme/secrets/database-password",
    'api_key_header = "X-Acme-Api-Key-Version-2"',
    "postgres://user:password@localhost/db",
    "postgres://{user}:{password}@{host}/db",
    "https://example.com:8080/a@b",
    "postgres://user:password@localhost/db?to=a@b.example",
    "sftp://a:b@host",  # too short to be one
    "commit 3f58ab6e0c1d2b3a4958671625344352617089af",
    'integrity = "sha512-abc"',
    "if line.startswith('-----BEGIN PRIVATE KEY-----'):\n    return parse_private_key(line)\n",
    'HEAD = "-----BEGIN RSA PRIVATE KEY-----"\nFOOT = "-----END RSA PRIVATE KEY-----"\n',
    "the ghp_ prefix marks a token",
    "sk-learn and xoxo",
    "key = 550e8400_e29b_41d4",
    "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n",
    "self._auth = HTTPBasicAuth(user, secret)",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_secrets_are_masked_and_nothing_else_is(text: str, secret: str) -> None:
    start = text.index(secret)
    assert mask(text) == (text[:start] + "*" * len(secret) + text[start + len(secret) :], 1)


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_is_none_stays(text: str) -> None:
    assert mask(text) == (text, 0)


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        KEY.replace("\n", "\r\n"),
        '{"private_key": "' + KEY.replace("\n", "\\n") + '"}',
        "".join(f'    "{line}\\n"\n' for line in KEY.splitlines()),
        KEY.replace("-----END RSA PRIVATE KEY-----\n", ""),  # cut off
        KEY.replace("\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1),
        KEY.replace("\n", ""),
    ],
)
def test_private_keys_in_every_dress(text: str) -> None:
    masked, count = mask(f"before = 1\n{text}\nafter = 2\n")
    assert count and "MIIEogIBAAKC" not in masked and "GnLjDep" not in masked
    assert masked.startswith("before = 1\n") and masked.endswith("\nafter = 2\n")


PIECES = st.sampled_from(
    ["\n", "\r\n", " ", '"', "'", "=", ":", "@", "://", "password", "SECRET_KEY = ", "x", "é", "\U0001f600", "*", "\\n"]
    + [secret for _, secret in SECRETS]
    + [KEY, KEY[:60], "-----END"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
@example("ghp_" + "a" * 300)
def test_masking_keeps_length_and_lines_and_is_idempotent_and_pure(text: str) -> None:
    masked, count = mask(text)
    assert len(masked) == len(text)
    assert all(new in (old, "*") for old, new in zip(text, masked, strict=True))
    assert [i for i, c in enumerate(masked) if c in "\r\n"] == [i for i, c in enumerate(text) if c in "\r\n"]
    assert mask(text) == (masked, count) and (masked != text) == bool(count)
    assert mask(masked) == (masked, 0)


def test_masking_leaves_no_half_of_an_escape() -> None:
    # the rest of a notebook whose JSON broke was cut by lines, outputs and all
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    key = f"-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----\\n"
    masked, count = mask(f'{{"source": "{key}", "outputs": []}}')
    assert count and "MIIEvQ" not in masked
    assert json.loads(masked)["outputs"] == []


@pytest.mark.parametrize(
    "unit", ["eyJ-", "a://", "-----BEGIN PRIVATE KEY-----\n", "://a:", "xox", "secret=", "'" + "a1" * 9, "ghp_", "\\n"]
)
def test_hostile_texts_come_to_an_end(unit: str) -> None:
    text = unit * (500_000 // len(unit))
    assert len(mask(text)[0]) == len(text)  # with a pattern that backtracks this would take hours


def test_a_token_in_a_files_name_goes_no_further(index: Indexer, repo: Repo) -> None:
    token = "ghp_" + "aB3" * 12
    repo.write(f"notes/{token}.md", "# Notes\n")
    repo.write(f"{token}/a.py", "x = 1\n")
    repo.commit(b_py="def b():\n    pass\n")
    report = index(repo)
    assert report.files.skipped == {"secret": 2}
    with index.database.connect() as connection:
        rows = str(connection.execute("select f::text from file f").fetchall())
        rows += str(connection.execute("select t::text from text t").fetchall())
    assert token not in rows and f"notes/{'*' * len(token)}.md" in rows and "b.py" in rows


# --- in the database ------------------------------------------------------------------------------------------------


def dump(index: Indexer) -> str:
    """Return every value of every table as text."""
    with index.database.connect() as connection:
        tables = connection.execute("select table_name from information_schema.tables where table_schema = 'public'")
        return "\n".join(
            str(row[0])
            for (table,) in tables.fetchall()
            for row in connection.execute(f'select t::text from "{table}" t')  # type: ignore[arg-type]
        )


def test_no_secret_reaches_the_database_or_the_model(index: Indexer, repo: Repo) -> None:
    body = "".join(f"def f{i}():\n    x = {text.strip()!r}\n" for i, (text, _) in enumerate(SECRETS[::4]))
    repo.write("a.py", body)
    repo.write("notes.md", "# Keys\n\n" + "\n\n".join(text for text, _ in SECRETS))
    repo.write("config/.env", "PASSWORD=hunter2\n")
    repo.write("tls.go", f"package a\n\nconst key = `{KEY}`\n")
    repo.commit()
    index(repo, name="r")
    stored, embedded = dump(index), "\n".join(index.embedder.texts)
    assert "*" * 36 in stored and "*" * 36 in embedded
    for secret in [*(token for _, token in SECRETS), "MIIEogIBAAKC", "PASSWORD=hunter2"]:
        assert secret not in stored and secret not in embedded


def _new_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this program one that also masks acme-0000, with all the versions that go with it."""
    acme = secrets.Detector("acme", ("acme-",), lambda text: secrets._token("", r"(acme-\d{4})").find(text))
    monkeypatch.setattr(secrets, "DETECTORS", (*secrets.DETECTORS, acme))
    monkeypatch.setattr(plan, "MASKED", ".m99")
    for module in (decode, __import__("flows.select", fromlist=["select"])):
        monkeypatch.setattr(module, "FACTS_VERSION", 2_099)
    monkeypatch.setattr(decode.Facts.__init__, "__defaults__", (2_099, *decode.Facts.__init__.__defaults__[1:]))


def test_a_new_detector_cuts_again_and_purges_what_the_old_one_let_through(
    index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(a_py="def use_acme_token():\n    return 'acme-0001'\n", acme_txt="acme-0002\n", b_py="b = 1\n")
    index(repo, name="r")
    assert "acme-0001" in dump(index)
    _new_detector(monkeypatch)
    report = index(repo, name="r")
    assert report.outcome == "done"
    assert "acme-000" not in dump(index) and "*********" in dump(index)
    assert index(repo, name="r").outcome == "unchanged"


def test_a_file_that_becomes_a_secret_leaves_nothing_behind(
    index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import names, select

    repo.write("acme.creds", "login of the_acme_user\n")
    repo.commit(a_py="a = 1\n")
    index(repo, name="r")
    assert "the_acme_user" in dump(index)
    table = names._table("*.creds")
    monkeypatch.setattr(names, "_TABLES", {**names._TABLES, select.SkipReason.SECRET: table})
    monkeypatch.setattr(select, "SELECTION_VERSION", 99)
    index(repo, name="r")
    assert paths(index.database) == {"a.py": None, "acme.creds": "secret"}
    assert "the_acme_user" not in dump(index)


def test_a_text_that_another_repository_has_stored_is_masked_anew_by_whoever_reads_it_first(
    index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(a_go="// Code generated by x. DO NOT EDIT.\npackage a\n\nconst id = `acme-0001`\n")
    index(repo, name="all", rules=Rules(include_generated=True))
    index(repo, name="usual")
    _new_detector(monkeypatch)
    index(repo, name="usual")
    with index.database.connect() as connection:
        assert connection.execute("select body like '%%*********%%' from piece").fetchall() == [(True,)]
    index(repo, name="all", rules=Rules(include_generated=True))
    assert "acme-000" not in dump(index)


@pytest.mark.parametrize(
    ("note", "masked"),
    [
        ("login with password=hunter2hunter2.", "login with password=***************"),
        ("DB_PASSWORD: 'hunter2hunter2', then restart", "DB_PASSWORD: '**************', then restart"),
        ("the api key is 8f3kd93kx", "the api key is *********"),
        ("password=correcthorse", "password=************"),
        ("set password=$DB_PASSWORD or token = get_token1()", None),
        ("password=db_password, token=None, max_tokens=4096, token count: 128000", None),
        ("the token: refresh it, since the secret is rotated weekly", None),
        ("GITSTRATA_TOKENS_FILE=/etc/gitstrata/tokens1.yaml", None),
    ],
)
def test_a_note_may_tell_a_password_in_prose(note: str, masked: str | None) -> None:
    assert secrets.mask_note(note) == (note if masked is None else masked)
    assert secrets.mask_note(secrets.mask_note(note)) == secrets.mask_note(note)


def test_code_is_not_masked_as_notes_are() -> None:
    assert secrets.mask("login(password=hunter2hunter2)") == ("login(password=hunter2hunter2)", 0)
