"""Property tests: any text, and real code that something tore apart."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import FIXTURES, check

from chunkers.languages import detect

LANGUAGES = sorted({detect(name).name for name in FIXTURES} | {"text", "json"})
BOUNDED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
ANY = st.text(st.characters(codec=None), max_size=300)
BITS = st.lists(
    st.sampled_from(['"', "{", "}", "(", ")", "\n", "class A", "def f():", "# H", "```", "'''", "  ", "x", "\r", "\0"]),
    max_size=60,
)


@pytest.mark.parametrize("language", LANGUAGES)
@BOUNDED
@given(text=st.one_of(ANY, BITS.map("".join)))
def test_any_text_is_cut_within_the_laws(language: str, text: str) -> None:
    check(text, language)


@pytest.mark.parametrize("name", FIXTURES)
@settings(BOUNDED, max_examples=25)
@given(data=st.data())
def test_torn_code_is_cut_within_the_laws(name: str, data: st.DataObject) -> None:
    text = FIXTURES[name]
    for _ in range(data.draw(st.integers(1, 4))):
        a = data.draw(st.integers(0, len(text)))
        b = data.draw(st.integers(a, min(len(text), a + 200)))
        text = (
            text[:a] + data.draw(st.one_of(st.text(max_size=5), BITS.map("".join), st.just(text[a:b] * 2))) + text[b:]
        )
    check(text, detect(name).name)


@pytest.mark.parametrize("name", FIXTURES)
def test_every_prefix_of_a_fixture_is_cut(name: str) -> None:
    for end in range(0, len(FIXTURES[name]), 97):
        check(FIXTURES[name][:end], detect(name).name)
