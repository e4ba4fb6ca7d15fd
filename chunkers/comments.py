"""What stands above a definition and belongs to it, and what its documentation says: one row a style of comments.

Works on lines and offsets that the caller found, never on syntax nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from chunkers.languages import Comments
from chunkers.naming import first_sentence

_LEAD_ROWS = 400  # comments longer than this before a definition are not read as its documentation
_NOT_DOC = ("@", "eslint", "prettier-", "noqa", "frozen_string_literal", "nolint", "go:", "SPDX", "type:", "pylint:")
_PYTHON = re.compile(rb"[rRuUbB]{0,2}(\"\"\"|'''|\"|')(.{0,4000}?)(?:\1|$)", re.DOTALL)
_STRING = re.compile(rb"(\")((?:[^\"\\]|\\.){0,4000})", re.DOTALL)
_ELIXIR = re.compile(rb"do\s+@moduledoc\s+(?:~[sS])?(\"\"\"|\")(.{0,4000}?)(?:\1|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Style:
    """How a language writes comments. ``says`` tells line comments that are read, ``opens`` block comments."""

    leads: tuple[str, ...]  # rows that belong to the definition below them begin so
    blocks: tuple[tuple[str, str], ...]  # how a block that belongs to it ends and begins
    says: re.Pattern[str]
    opens: re.Pattern[str]
    closes: str
    marker: re.Pattern[str]
    drops: re.Pattern[str] | None = None  # markup inside
    docstring: re.Pattern[bytes] | None = None  # documentation at the beginning of a body
    noise: re.Pattern[str] | None = None  # what stands between a signature and its body and belongs to neither
    apart: str = ""  # how a block ends that belongs to the definition below even with blank rows between


_SLASH_MARKER = re.compile(r"^\s*(?:/{2,}!?|/\*+!?|\*+/|\*+|#+!?)?\s?")
_LINE = re.compile(r"//|#(?!\[)")
_C_BLOCK = re.compile(r"/\*(?!/)")
_HASH = re.compile(r"(?m)(?:^|\s)#(?![{]).*$|\s=\s*\Z")
_ATTRIBUTES = re.compile(r"\A(?:#?\[[^\n]*\]\s+)+|\s=\s*\Z")
_QUOTED = ('"""', '"""')
_DOC = re.compile(r'(?:@\w*doc\s+(?:~[sS])?)?"""')
_DOC_MARKER = re.compile(r'^\s*(?:#+|@\w*doc\s+(?:~[sS])?"{1,3}|"{1,3})?\s?')

STYLES: dict[Comments, Style] = {
    "slash": Style(
        ("//", "#[", "@", "[[", "template"),
        (("*/", "/*"), (")]", "#[")),
        _LINE,
        _C_BLOCK,
        "*/",
        _SLASH_MARKER,
        noise=re.compile(r"\A(?:#\[[^\n]*\]\s+)+|\s=\s*\Z"),
    ),
    "xml": Style(
        ("//", "["),
        (("*/", "/*"),),
        _LINE,
        _C_BLOCK,
        "*/",
        _SLASH_MARKER,
        drops=re.compile(r"</?[a-z][^<>]*>"),
        noise=_ATTRIBUTES,
    ),
    "python": Style(("#", "@"), (), _LINE, _C_BLOCK, "*/", _SLASH_MARKER, docstring=_PYTHON),
    "hash": Style(
        ("#",),
        (("=end", "=begin"),),
        _LINE,
        re.compile("=begin"),
        "=end",
        re.compile(r"^\s*(?:#+['!|]?|=begin|=end)?\s?"),
        noise=_HASH,
    ),
    "dash": Style(
        ("--",),
        (("]]", "--[["), ("-}", "{-"), ("*/", "/*")),
        re.compile("--"),
        re.compile(r"--\[=*\[|\{-|/\*"),
        "",
        re.compile(r"^\s*(?:--\[=*\[|-{2,}|\{-|/\*+|\*+)?\s?(?:[|^]\s)?"),
        drops=re.compile(r"-\}$|\*/$|\]=*\]$"),
        noise=re.compile(r"(?m)(?:^|\s)--.*$|\s[=(]\s*\Z"),
    ),
    "quoted": Style(
        ("#", "@", '"'),
        (_QUOTED,),
        re.compile(r'#|@\w*doc\s+"|"(?!"")'),
        _DOC,
        '"""',
        _DOC_MARKER,
        drops=re.compile('"+$'),
        docstring=_ELIXIR,
        noise=_HASH,
    ),
    "ml": Style(
        (),
        (("*)", "(*"),),
        re.compile(r"\(\*"),
        re.compile(r"\(\*"),
        "*)",
        re.compile(r"^\s*(?:\(\*+|\*+)?\s?"),
        noise=re.compile(r"\s=\s*\Z"),
    ),
    "pod": Style(
        ("#",),
        (("=cut", "=head"),),
        re.compile(r"#(?!!)|=head"),
        re.compile(r"=(?:head|pod|over|begin)"),
        "=cut",
        re.compile(r"^\s*(?:#+|=cut|=head\d.*|=(?:pod|item|over|back|begin|end|encoding)\b)?\s?"),
        drops=re.compile(r"[A-Z]<(?=\w)|(?<=\w)>"),
        noise=_HASH,
        apart="=cut",
    ),
    "percent": Style(
        ("%", "-doc"),
        (),
        re.compile("%"),
        re.compile(r"(?!)"),
        "",
        re.compile(r"^\s*%*\s?(?:@doc\s)?"),
        noise=re.compile(r"(?m)(?:^|\s)%.*$"),
    ),
    "semicolon": Style(
        (";",),
        (),
        re.compile(";"),
        re.compile(r"(?!)"),
        "",
        re.compile(r"^\s*;*\s?"),
        docstring=_STRING,
        noise=re.compile(r"(?m)(?:^|\s);.*$|\A\(|\)+\s*\Z"),
    ),
}

STYLES["natspec"] = replace(
    STYLES["slash"], marker=re.compile(_SLASH_MARKER.pattern + r"(?:@(?:title|notice|dev)\s)?")
)  # Solidity's


def lead_row(lines: Sequence[str], row: int, floor: int, comments: Comments) -> int:
    """Return the first of the comment, decorator and attribute rows directly above a row, not above ``floor``."""
    style = STYLES[comments]
    floor = max(floor, row - _LEAD_ROWS)
    while row > floor:
        if style.apart and (end := _above_blank(lines, row, floor)) < row and lines[end - 1].startswith(style.apart):
            row = end
        above = lines[row - 1].strip()
        opener = next((opener for closer, opener in style.blocks if above.endswith(closer)), "")
        if above.startswith(style.leads) and opener != _QUOTED[1]:
            row -= 1
        elif opener:
            opening = _opening_row(lines, row - 1, floor, opener)
            if opening is None:
                break
            row = opening
        else:
            break
    return row


def _above_blank(lines: Sequence[str], row: int, floor: int) -> int:
    """Return the row below the last one that says something above ``row``, or ``floor + 1``."""
    while row > floor + 1 and not lines[row - 1].strip():
        row -= 1
    return row


def _opening_row(lines: Sequence[str], row: int, floor: int, opener: str) -> int | None:
    """Return the row that opens the block closed in ``row`` if nothing stands before the opener, else None."""
    is_quote = opener == _QUOTED[0]
    if is_quote and lines[row].count(opener) < 2:
        row -= 1
    for candidate in range(row, floor - 1, -1):
        if opener in lines[candidate]:
            bare = lines[candidate].lstrip()
            return candidate if bare.startswith(opener) or (is_quote and bare.startswith("@")) else None
    return None


def doc_of(lines: Sequence[str], lead: int, first: int, source: bytes, body: int | None, comments: Comments) -> str:
    """Return the first sentence of the documentation in a body or of the comment rows ``lead..first``."""
    if body is not None:
        docstring = docstring_at(source, body, comments)
        if docstring:
            return first_sentence(docstring)
    return first_sentence(comment_text(lines[lead:first], comments)) if lead < first else ""


def docstring_at(source: bytes, offset: int, comments: Comments) -> str:
    """Return the documentation that begins at a byte offset, "" if none does."""
    pattern = STYLES[comments].docstring
    match = pattern.match(source, offset) if pattern is not None else None
    return match[2].decode("utf-8", "replace").strip() if match else ""


def comment_text(rows: Sequence[str], comments: Comments) -> str:
    """Return what the first paragraph of comment rows says, without markers, decorators, tags and tool directives."""
    style = STYLES[comments]
    said: list[str] = []
    in_block = False
    for row in rows:
        bare = row.strip()
        opening = None if in_block else style.opens.match(bare)
        if not in_block and opening is None and not style.says.match(bare):
            continue
        text = style.marker.sub("", bare, count=1)
        text = (text.removesuffix(style.closes) if style.closes else text).strip()
        text = style.drops.sub("", text).strip() if style.drops is not None else text
        in_block = (in_block or opening is not None) and not _is_closed(
            bare[opening.end() :] if opening else bare, style
        )
        if text.startswith(_NOT_DOC):
            continue
        if text and any(map(str.isalnum, text)):
            said.append(text)
        elif said:
            break
    return "\n".join(said)


def _is_closed(rest: str, style: Style) -> bool:
    return style.closes in rest if style.closes else rest.endswith(("]]", "-}", "*/"))


def comment_end(lines: Sequence[str], row: int, comments: Comments) -> int:
    """Return the last row of the comment that begins at ``row``, ``row - 1`` if none does."""
    style = STYLES[comments]
    stripped = lines[row].strip()
    opening = style.opens.match(stripped)
    if opening is not None and comments not in ("python", "quoted"):
        rest = stripped[opening.end() :]
        while row < len(lines) - 1 and not _is_closed(rest, style):
            row += 1
            rest = lines[row].strip()
        return row
    markers = {"slash": "//", "xml": "//", "dash": "--", "ml": "(*", "percent": "%", "semicolon": ";"}
    while row < len(lines) and lines[row].strip().startswith(markers.get(comments, "#")):
        row += 1
    return row - 1
