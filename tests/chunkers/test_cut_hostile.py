"""Inputs that break indexers: depth, length, width, and characters that are no text."""

from __future__ import annotations

import time

import pytest
from laws import check

from chunkers.chunk import Level
from chunkers.cut import cut, fingerprint
from chunkers.languages import Grammar, Language, get, names

NESTED_NAMES = "".join(f"{'  ' * i}class C{i}:\n" for i in range(400)) + "  " * 400 + "pass\n"
HOSTILE = {
    # name: (language, text, most chunks)
    "parens in a notebook": ("jupyter", '{"cells": ' + "[" * 200_000, 60),
    "parens": ("c", "int x = " + "(" * 20_000 + "1" + ")" * 20_000 + ";\n", 40),
    "parens on lines": ("c", "int x =\n" + "(\n" * 20_000 + "1" + ")\n" * 20_000 + ";\n", 100),
    "python parens": ("python", "x = " + "(" * 4_000 + "1" + ")" * 4_000 + "\n", 20),
    "braces": ("c", "void deep(void) " + "{" * 16_384 + "}" * 16_384 + "\n", 40),
    "braces on lines": ("c", "void deep(void)\n" + "{\n" * 16_384 + "}\n" * 16_384 + "\n", 100),
    "array": (
        "cpp",
        "static const Entry table[] = {\n" + "".join(f'  {{"k{i}", {i}}},\n' for i in range(16_000)) + "};\n",
        200,
    ),
    "long line": ("javascript", "!function(){" + "var a=1;" * 600_000 + "}();", 10),
    "bundle": ("javascript", "!function(e,t){" + "e[t]=function(){return t+1};" * 40_000 + "}();", 10),
    "json": ("json", "[" * 5_000 + "]" * 5_000, 5),
    "long function": ("python", "def huge(x):\n" + "".join(f"    x += {i}  # step {i}\n" for i in range(6_000)), 100),
    "many methods": (
        "java",
        "public class God {\n" + "".join(f"  public int m{i}(int a) {{ return {i}; }}\n" for i in range(3_000)) + "}\n",
        200,
    ),
    "many functions on a line": ("javascript", "".join(f"function f{i}(){{}} " for i in range(400)) + "\nx\n", 10),
    "nested names": ("python", NESTED_NAMES, 100),
    "long name": ("python", f"class {'a' * 5_000}:\n    def {'b' * 5_000}(self):\n        pass\n", 10),
    "carriage returns only": ("text", "alpha\rbeta\rgamma\r", 1),
    "nul": ("python", "def nul():\n    return 'a\x00b'\n", 3),
    "surrogate": ("python", "def \ud800f():\n    return '\udfff'\n", 5),
    "equal lines": ("text", "the same line again\n" * 5_000, 60),
    "blank after": ("text", "word\n" + "\n" * 100_000, 60),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_cut_quickly_and_within_the_laws(name: str) -> None:
    language, text, most = HOSTILE[name]
    begun = time.process_time()
    made = check(text, language)
    assert len(made.chunks) <= most
    assert time.process_time() - begun < 8  # two cuts; generous, for busy machines


def test_a_long_line_is_bounded_and_said_to_be() -> None:
    made = cut("var a;\n" * 2_000 + "x" * 12_000 + "\n", "javascript")
    assert "10000" in made.fallback
    assert sum("xxxx" in chunk.text for chunk in made.chunks) <= 8


def test_crlf_is_kept_and_only_lf_ends_a_line() -> None:
    text = "def f():\r\n    return 1\r\n\r\n\r\ndef g():\r\n    a = 'x\ry'\r\n    return '" + "y" * 200 + "'\r\n"
    made = check(text, "python")
    assert [(s.name, s.start_line, s.end_line) for s in made.symbols] == [("f", 1, 2), ("g", 5, 7)]
    assert any("def g():\r\n" in chunk.text for chunk in made.chunks)


def test_a_long_name_is_cut_with_its_hash() -> None:
    made = cut(HOSTILE["long name"][1], "python")
    assert [len(symbol.name) for symbol in made.symbols] == [300, 300]
    assert made.symbols[0].name[-9] == "~"


def test_three_thousand_methods_are_all_symbols() -> None:
    made = cut(HOSTILE["many methods"][1], "java")
    assert len(made.symbols) == 3_001
    assert sum(chunk.level == Level.METHOD for chunk in made.chunks) < 100


def test_a_grammar_that_is_not_installed_gives_line_windows_and_a_note() -> None:
    row = Language("cobol", "code", "tree", Grammar("tree_sitter_cobol", "language", ("c",), "slash"))
    made = check("MOVE A TO B.\n", row)
    assert made.fallback == "no grammar for cobol: install gitstrata[languages]"
    assert fingerprint(row) != fingerprint("text")


def test_rubble_is_cut_by_lines() -> None:
    made = check("(defn a [x] x)\n" + "( [ { #( \n" * 6_000, "clojure")  # a query over it would be quadratic
    assert "tokens that nothing holds together" in made.fallback


@pytest.mark.parametrize("name", [name for name in names() if (g := get(name).grammar) and g.loses_itself])
def test_large_text_in_which_a_grammar_loses_itself_is_cut_by_lines(name: str) -> None:
    made = check("word word word\n" * 20_000, name)
    assert "define nothing" in made.fallback


def test_a_failing_grammar_falls_back_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such node")

    monkeypatch.setattr("chunkers.cut.cut_tree", fail)
    made = cut("def f():\n    pass\n", "python")
    assert made.fallback == "python cutter failed: ValueError: no such node"
    assert made.chunks[0].anchor == "module"
