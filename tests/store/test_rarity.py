"""Which strings are asked for first."""

from __future__ import annotations

from flows.store import rarity
from flows.store.rarity import ALPHABET, rarest


def test_the_table_has_each_pair_once() -> None:
    assert len(rarity._PAIRS) == len(ALPHABET) ** 2 == len(rarity._COUNTS)


def test_rare_letters_come_first() -> None:
    assert set(rarest({"the", "qzx", "ion", "xqj"}, 2)) == {"qzx", "xqj"}
    assert rarest({"return", "0zebra"}, 1) == ["0zebra"]
    assert rarest({"ab", "ba"}, 5) == rarest(["ba", "ab"], 5)  # always in one order
    assert rarest((), 3) == []
