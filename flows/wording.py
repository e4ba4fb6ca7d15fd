"""Numbers with their nouns, as messages say them."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 file`` or ``2 files``; ``plural`` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
