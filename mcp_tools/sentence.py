"""An error as a client hears it: without credentials, and short, whatever it repeats of an argument."""

from __future__ import annotations

from flows import urls

MAX_SAID = 2_000  # characters
_MAX_READ = 10_000  # a megabyte would keep the patterns that look for credentials busy for minutes


def sentence(error: object) -> str:
    """Return what is said of an error."""
    text = str(error)
    safe = urls.redact(text[:_MAX_READ])
    return safe if len(text) <= _MAX_READ and len(safe) <= MAX_SAID else f"{safe[:MAX_SAID]}… (cut)"
