"""What a file calls its language to an editor, and where that is read."""

from __future__ import annotations

import time

import pytest

from chunkers.languages import by_alias, by_content
from chunkers.modeline import declared

DECLARED = [
    # lines, word
    ("# vim: set ft=python:\n", "python"),
    ("# vim:ft=ruby\n", "ruby"),
    ("/* vim: set ts=8 sw=4 filetype=cpp : */\n", "cpp"),
    ("# vi: syntax=sh et\n", "sh"),
    ("# ex: ft=perl\n", "perl"),
    ("# vim>700: ft=go\n", "go"),
    ("-- vim: noai:ts=2:ft=lua\n", "lua"),
    ("a\n" * 20 + "# vim: ft=sh\n", "sh"),  # the last lines, too
    ("a\n" * 20 + "# vim: ft=sh\n" + "a\n" * 4, "sh"),
    ("a\n" * 20 + "# vim: ft=sh\n" + "a\n" * 5, ""),  # the sixth line from the end
    ("a\n" * 5 + "# vim: ft=sh\n" + "a\n" * 20, ""),  # the sixth line
    ("# -*- mode: ruby -*-\n", "ruby"),
    ("// -*- C++ -*-\n", "c++"),
    (";; -*- Mode: Lisp; indent-tabs-mode: nil -*-\n", "lisp"),
    ("# -*- coding: utf-8; mode: python; fill-column: 80 -*-\n", "python"),
    ("# -*- coding: utf-8 -*-\n", ""),
    ("#!/bin/weird\n# -*- mode: tcl -*-\n", "tcl"),
    ("first\n# -*- mode: tcl -*-\n", ""),  # Emacs reads the second line below a #! only
    ("# -*- mode: ruby -*-\n# vim: ft=python\n", "python"),
    ("the gvim: ft=x\n", ""),
    ("see vim: it has no filetype\n", ""),
    ("regex: ft=python\n", ""),
    ("", ""),
    ("\n", ""),
]
ALIASES = [
    ("C++", "cpp"),
    ("shell-script", "shell"),
    ("js2-mode", "javascript"),
    ("python-ts-mode", "python"),
    ("typescriptreact", "tsx"),
    ("Jupyter Notebook", "jupyter"),
    ("cs", "csharp"),
    ("make", "makefile"),
    ("help", None),
    ("text", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "word"), DECLARED)
def test_a_modeline_names_the_language(text: str, word: str) -> None:
    assert declared(text.split("\n")) == word


@pytest.mark.parametrize(("word", "language"), ALIASES)
def test_what_people_and_editors_call_a_language(word: str, language: str | None) -> None:
    row = by_alias(word)
    assert (row.name if row else None) == language


def test_a_shebang_goes_before_a_modeline() -> None:
    assert (row := by_content("#!/usr/bin/perl", "ruby")) and row.name == "perl"
    assert (row := by_content("#!/opt/unknown", "ruby")) and row.name == "ruby"
    assert by_content("", "") is None


def test_hostile_lines_come_to_an_end() -> None:
    start = time.process_time()
    for unit in ("vim:", " vim: ft", "-*-", " ex:", "mode:;"):
        declared([unit * 100_000] * 10)
    assert time.process_time() - start < 1
