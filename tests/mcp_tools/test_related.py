"""find_related: what resembles a chunk, without the chunk and what overlaps it."""

from __future__ import annotations

import pytest

from flows.errors import UsageError
from mcp_tools.index import Index
from mcp_tools.related import find_related

CHUNK = "src/retry.py#RetryPolicy.parse_retry_after"


def test_others_like_it_without_itself(library: Index) -> None:
    answer = find_related(library, CHUNK, repo="acme/http")
    places = [row.url for row in answer.result]
    assert places and not any(place.startswith(("src/retry.py#L4-", "src/retry.py#L10-")) for place in places)
    assert any(place.startswith(("src/client.ts", "pkg/retry.go")) for place in places[:3])
    assert find_related(library, CHUNK, repo="acme/http") == answer
    assert len(find_related(library, CHUNK, repo="acme/http", limit=2).result) == 2


@pytest.mark.parametrize(
    ("source_id", "given", "said"),
    [
        ("none.py#x", {}, "no file none.py"),
        (CHUNK, {"limit": 0}, "limit is 0"),
        (CHUNK, {"repo": "acme/htp"}, "did you mean 'acme/http'"),
        ("", {}, "no source_id"),
    ],
)
def test_what_is_not_there_is_one_sentence(library: Index, source_id: str, given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        find_related(library, source_id, **given)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
