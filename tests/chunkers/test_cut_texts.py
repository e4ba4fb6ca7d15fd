"""What the texts of chunks hold: headers, skeletons, pieces; never a path, a line number or a piece number."""

from __future__ import annotations

from laws import FIXTURES, check

from chunkers.chunk import Chunk, Level
from chunkers.cut import cut

STEPS = "\n".join(f"        step_{i}(value, {i * 37})  # what step {i} is for" for i in range(120))
LONG = (
    f'class Job:\n    """Does it."""\n\n    def run(self, value):\n        """Run all. Slowly."""\n{STEPS}\n'.replace(
        "    step_", "        step_"
    )
)


def chunk(text: str, language: str, anchor: str) -> Chunk:
    return next(chunk for chunk in check(text, language).chunks if chunk.anchor == anchor)


def test_a_method_begins_with_its_breadcrumb() -> None:
    found = chunk(FIXTURES["sample.py"], "python", "Client.get@3")
    assert found.text.startswith("Client.get\n    async def get(self, path):\n")
    assert found.symbol == "Client.get"


def test_decorators_and_comments_stay_with_their_function() -> None:
    found = chunk(FIXTURES["sample.py"], "python", "retry")
    assert found.text.startswith("# Retries a call.\n")
    assert found.start_line == 16


def test_a_skeleton_holds_fields_and_signatures_but_no_bodies() -> None:
    text = chunk(FIXTURES["sample.py"], "python", "Client").text
    assert "Holds one connection." in text and "timeout = 3.0" in text and "async def get(self, path)" in text
    assert "answer.body" not in text


def test_an_outline_skips_the_license_and_lists_definitions() -> None:
    text = chunk(FIXTURES["sample.py"], "python", "file").text
    assert text.startswith("Talks to the server. Second sentence.\n")
    assert "Copyright" not in text and "from pathlib import ( Path, )" in text and "class Client" in text


def test_pieces_of_a_long_method_carry_its_name() -> None:
    made = check(LONG, "python")
    head = next(chunk for chunk in made.chunks if chunk.anchor == "Job.run")
    assert head.text.startswith("Job.run\n    def run(self, value):\n") and "Run all. Slowly." in head.text
    assert (head.start_line, head.end_line) == (4, 125)
    pieces = [chunk for chunk in made.chunks if chunk.anchor.startswith("Job.run:")]
    assert [piece.anchor for piece in pieces] == [f"Job.run:{i + 1}" for i in range(len(pieces))]
    assert all(piece.level == Level.BLOCK and piece.symbol == "Job.run" for piece in pieces)
    assert all(piece.text.startswith("Job.run\n") and piece.signature == head.signature for piece in pieces)
    signed = LONG.replace("def run(self, value)", "def run(self, value, more)")
    new = {chunk.text for chunk in check(signed, "python").chunks} - {chunk.text for chunk in made.chunks}
    assert len(pieces) > 3 and 1 <= len(new) <= 4  # law 5: the signature stands in one piece only
    assert all(made.chunks[piece.parent or 0].anchor == "Job.run" for piece in pieces)


def test_a_long_function_that_holds_others_is_a_container() -> None:
    body = "    x += 1; // add\n" * 8
    inner = "\n".join(f"  function inner{i}(x) {{\n{body}    return x;\n  }}" for i in range(8))
    made = check(f"function outer() {{\n  let a = 1;\n{inner}\n  return a;\n}}\n", "javascript")
    assert {"outer", "outer.inner3"} <= {chunk.anchor for chunk in made.chunks}
    assert "function inner3(x)" in chunk_text(made.chunks, "outer")
    assert "add" not in chunk_text(made.chunks, "outer")


def chunk_text(chunks: tuple[Chunk, ...], anchor: str) -> str:
    return next(chunk.text for chunk in chunks if chunk.anchor == anchor)


def test_a_class_with_many_fields_has_blocks_under_its_name() -> None:
    fields = "\n".join(f"    field_{i}: int = {i}  # what it is for" for i in range(150))
    made = check(f"class Wide:\n{fields}\n\n    def use(self):\n        return 1\n", "python")
    blocks = [chunk for chunk in made.chunks if chunk.level == Level.BLOCK]
    assert len(blocks) > 1 and {chunk.symbol for chunk in blocks} == {"Wide"}
    assert all(len(chunk.text) < 2_500 for chunk in blocks)


def test_a_prototype_gives_way_to_its_definition() -> None:
    made = cut("int f(int a);\n\nint g(void) { return f(1); }\n\nint f(int a) { return a; }\n", "c")
    assert [(s.name, s.kind) for s in made.symbols] == [("f", "prototype"), ("g", "function"), ("f", "function")]
    assert not any(chunk.anchor == "f@2" for chunk in made.chunks)


def test_functions_in_an_anonymous_wrapper_are_found() -> None:
    made = cut("(function () {\n  function hidden() {\n    return 1;\n  }\n})();\n", "javascript")
    assert [symbol.name for symbol in made.symbols] == ["hidden"]


def test_no_text_holds_where_it_stands() -> None:
    for name, text in FIXTURES.items():
        assert not any(name in piece.text for piece in cut(text, "text").chunks)


def test_fields_after_many_methods_are_not_lost() -> None:
    methods = "\n".join(f"  int method_with_a_long_name_{i}(int argument) {{ return {i}; }}" for i in range(150))
    made = check(f"class A {{\n{methods}\n  int lastField = 1;\n}}\n", "java")
    assert "int lastField = 1;" in chunk_text(made.chunks, "A")


def test_long_docs_of_a_class_become_blocks_under_its_name() -> None:
    docs = "\n".join(f"/// Line {i} of what it does, at some length." for i in range(100))
    made = check(f"{docs}\npub struct Big {{\n    a: u8,\n}}\n", "rust")
    assert "Line 0 of" in chunk_text(made.chunks, "Big") and "Line 50 of" not in chunk_text(made.chunks, "Big")
    assert any("Line 50 of" in chunk.text and chunk.symbol == "Big" for chunk in made.chunks)
