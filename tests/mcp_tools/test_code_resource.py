"""code:// resources: a file of a published commit, and one clear error for everything else that a URI may say."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from flows.errors import UsageError
from flows.select import Rules
from mcp_tools.code_resource import TEMPLATE, read_code, uri
from mcp_tools.index import Index
from tests.conftest import Indexer
from tests.mcp_tools.conftest import FILES, in_memory
from tests.repos import Repo


def commit_of(index: Index, repo: str, branch: str = "main") -> str:
    from flows.store import read

    with index.snapshot() as connection:
        return read.branches(connection, repo, branch)[0].commit_sha


def test_the_template_is_listed_and_files_are_read(library: Index) -> None:
    commit = commit_of(library, "acme/http")
    with in_memory(library) as client:
        (template,) = client.portal.call(client.session.list_resource_templates).resource_templates
        assert template.uri_template == TEMPLATE and template.description
        for path in ("src/retry.py", "docs/guide.md", "#odd.py", "back\\\\slash.py", "windows.py"):
            stored = path.replace("\\\\", "\\")
            assert client.read(uri("acme/http", commit, path)) == FILES[stored]
        assert client.read(uri("acme/http", commit[:7], "src/retry.py") + "?start=4&end=5") == (
            'class RetryPolicy:\n    """Says when a request is sent again."""'
        )
        assert client.read(uri("acme/http", commit, "src/retry.py") + "?start=19") == "    return RetryPolicy(1)\n"
        feature = commit_of(library, "acme/http", "feature")
        assert "def hedge" in client.read(uri("acme/http", feature, "src/hedge.py"))  # any published branch


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("acme%2Fhttp/{c}/../../etc/passwd", "is no path from the repository's root"),
        ("acme%2Fhttp/{c}/%2e%2e/%2e%2e/etc/passwd", "is no path from the repository's root"),
        ("acme%2Fhttp/{c}/src/..%2F..%2Fx", "is no path from the repository's root"),
        ("acme%2Fhttp/{c}//etc/passwd", "is no path from the repository's root"),
        ("acme%2Fhttp/{c}/%2Fetc/passwd", "is no path from the repository's root"),
        ("acme%2Fhttp/{c}/src/retry.py%00.png", "no file|cannot be looked up"),
        ("acme/http/{c}/src/retry.py", "'http' is no commit: use code://repo/commit/path, with .* as %2F"),
        ("acme%2Fhttp/HEAD/src/retry.py", "'HEAD' is no commit"),
        ("acme%2Fhttp/main/src/retry.py", "'main' is no commit"),
        ("acme%2Fhttp/abc/src/retry.py", "'abc' is no commit"),
        ("acme%2Fhttp/%25/src/retry.py", "is no commit"),
        ("acme%2Fhttp/0000000/src/retry.py", "commit 0000000 of acme/http is not published, or no longer; .*now: "),
        ("acme%2Fhtp/{c}/src/retry.py", "unknown repo 'acme/htp': did you mean 'acme/http'"),
        ("../{c}/src/retry.py", "unknown repo '..'"),
        ("acme%2Fhttp/{c}/src/none.py", "no file src/none.py in acme/http at commit"),
        ("acme%2Fhttp/{c}/src", "no file src in acme/http"),
        ("acme%2Fhttp/{c}/logo.png", "logo.png is not indexed: binary"),
        ("acme%2Fhttp/{c}/src/retry.py?start=0", "start is '0': use a line number from 1"),
        ("acme%2Fhttp/{c}/src/retry.py?start=x&end=2", "start is 'x'"),
        ("acme%2Fhttp/{c}/src/retry.py?start=5&end=2", "has 19 lines: there are no lines 5 to 2"),
        ("acme%2Fhttp/{c}/src/retry.py?start=20", "has 19 lines: there are no lines 20 to 19"),
        ("acme%2Fhttp/{c}/" + "x/" * 5_000, "no file"),
        ("acme%2Fhttp", "Unknown resource"),
        ("", "Unknown resource"),
    ],
)
def test_tampering_is_one_clear_error(library: Index, tail: str, message: str) -> None:
    commit = commit_of(library, "acme/http")
    with in_memory(library) as client, pytest.raises(MCPError, match=message) as caught:
        client.read("code://" + tail.format(c=commit))
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)


def test_other_schemes_are_unknown(library: Index) -> None:
    with in_memory(library) as client, pytest.raises(MCPError, match="Unknown resource"):
        client.read("file:///etc/passwd")


def test_a_commit_that_was_replaced_says_so_and_denied_is_absent(index: Indexer, reader: Index, repo: Repo) -> None:
    rules = Rules(deny=("secret.py",))
    repo.commit(a_py="x = 1\n", secret_py="y = 1\n")
    index(repo, name="r", rules=rules)
    old = commit_of(reader, "r")
    assert read_code(reader, "r", old, "a.py") == "x = 1\n"
    with pytest.raises(UsageError, match=r"^no file secret\.py in r at commit"):
        read_code(reader, "r", old, "secret.py")
    repo.commit(a_py="x = 2\n")
    index(repo, name="r", rules=rules)
    new = commit_of(reader, "r")
    with pytest.raises(UsageError, match=f"commit {old} of r is not published, or no longer; .*now: {new[:12]}"):
        read_code(reader, "r", old, "a.py")
    assert read_code(reader, "r", new, "a.py") == "x = 2\n"


def test_a_big_file_is_read_in_parts(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="".join(f"value_{i} = {i}\n" for i in range(5_000)))
    index(repo, name="r")
    commit = commit_of(reader, "r")
    with pytest.raises(UsageError, match=r"a\.py has 5000 lines, and \d+ characters .* ask for fewer"):
        read_code(reader, "r", commit, "a.py")
    assert read_code(reader, "r", commit, "a.py", start="2", end="3") == "value_1 = 1\nvalue_2 = 2"
