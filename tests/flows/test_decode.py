"""Bytes to text: encodings, their floor of confidence, and that line numbers stay git's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.decode import decode

CHINESE = (
    "# 这是一个用来计算价格的模块，包含多个函数。\ndef 价格(数量):\n    # 返回总价，单位为人民币元\n    return 数量\n"
)
JAPANESE = "# 日本語のテキストです。これは文字コードの試験です。\ndef f():\n    return '日本語テキスト'\n"
RUSSIAN = "# Модуль для расчёта цен и скидок\ndef price(n):\n    # возвращает сумму\n    return n\n"
FRENCH = "# préféré\ndef café():\n    return 'à la carte £'\n"


@pytest.mark.parametrize(
    ("text", "written_as", "encodings"),
    [
        (CHINESE, "utf-8", ["utf-8"]),
        (CHINESE, "utf-8-sig", ["utf-8"]),
        (CHINESE, "utf-16", ["utf-16-le"]),
        (CHINESE, "utf-32", ["utf-32-le"]),
        (CHINESE, "gb18030", ["gb18030", "gbk", "gb2312"]),
        (JAPANESE, "shift_jis", ["cp932", "shift_jis", "shift_jis_2004", "shift_jisx0213"]),
        (JAPANESE, "euc_jp", ["euc_jp", "euc_jis_2004", "euc_jisx0213"]),
        (RUSSIAN, "cp1251", ["cp1251"]),
        (FRENCH, "latin-1", ["cp1252"]),
        (FRENCH[:10] + "\n", "latin-1", ["cp1252"]),  # three letters are nothing to guess from
        ("# coding: koi8-r\n" + RUSSIAN, "koi8-r", ["koi8-r"]),
        ("class A { void F() { } }\n", "utf-16-be", ["utf-16-be"]),  # without a mark
    ],
)
def test_encodings(text: str, written_as: str, encodings: list[str]) -> None:
    read, facts = decode(text.encode(written_as))
    assert read == text
    assert facts.encoding in encodings and facts.replaced == 0 and not facts.binary


@pytest.mark.parametrize(
    "cookie", ["rot13", "base64", "unicode_escape", "utf-7", "utf-16", "punycode", "cp037", "no-such"]
)
def test_a_declared_encoding_that_would_move_lines_or_is_none_counts_for_nothing(cookie: str) -> None:
    read, facts = decode(f"# coding: {cookie}\n# caf".encode() + b"\xe9\n")
    assert (read, facts.encoding) == (f"# coding: {cookie}\n# café\n", "cp1252")


def test_undecodable_bytes_are_counted_but_the_character_itself_is_not() -> None:
    broken = ("# " + "ünïcödé " * 40).encode() + b"\xff\xfe\xfa" + "日本語\n".encode()
    read, facts = decode(broken)
    assert (facts.encoding, facts.replaced, read.count("\ufffd")) == ("utf-8", 3, 3)
    assert decode("replaced by \ufffd\n".encode())[1].replaced == 0


@given(st.binary(max_size=400) | st.text().map(str.encode))
def test_any_bytes_keep_their_lines(raw: bytes) -> None:
    read, facts = decode(raw)
    assert "\0" not in read
    if facts.encoding and not facts.encoding.startswith(("utf-16", "utf-32")) and not facts.binary and not facts.lfs:
        assert read.count("\n") == raw.count(b"\n")
