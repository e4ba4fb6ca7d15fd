"""Names and signatures, where the goldens do not reach."""

from __future__ import annotations

from chunkers.cut import cut

ANNOTATED = """interface Channel {
    @Deprecated(
        message = "Use 'tryReceive'. (See the docs.)",
        replaceWith = ReplaceWith("tryReceive().getOrThrow()")
    ) // Warning since 1.5
    @Suppress("x")
    fun poll(): Int
}

@JvmInline
value class Result(val holder: Any?)
"""


def test_annotations_are_no_part_of_a_signature() -> None:
    signatures = {symbol.name: symbol.signature for symbol in cut(ANNOTATED, "kotlin").symbols}
    assert signatures["Channel.poll"] == "fun poll(): Int"
    assert signatures["Result"].startswith("value class Result")
