"""What a blob becomes: its text, its facts and its cuts. The flow writes them; a plan only counts them."""

from __future__ import annotations

from chunkers import cut
from chunkers.chunk import Cut
from flows import plan, select
from flows.decode import Facts, decode
from flows.errors import GitstrataError
from flows.git import ObjectReader
from flows.secrets import mask
from flows.store.cuts import BlobTask, CutKey


def cut_blob(
    reader: ObjectReader, task: BlobTask, rules: select.Rules
) -> tuple[str | None, Facts, list[tuple[CutKey, Cut]]]:
    """Return the blob's text (None if nothing of it may be shown), its facts, and a cut for each language."""
    if task.size > rules.max_bytes:
        return None, Facts(read=False), []
    text, facts = decode(reader.read(task.oid))
    decisions = [select.by_facts(keep, task.size, facts, rules) for keep in task.keeps]
    languages = sorted({decision.language for decision in decisions if isinstance(decision, select.Keep)})
    cuts = [(plan.cut_key(name), cut.cut(text, name)) for name in languages]
    return (None if facts.key_file or facts.binary or facts.lfs else text), facts, cuts


def said(error: Exception) -> str:
    """Return why a blob failed; what a decoder or chunker raises may quote the content."""
    return mask(str(error) if isinstance(error, GitstrataError) else f"{type(error).__name__}: {error}")[0]
