"""An embedded server in a temporary home that leaves nothing behind, also not where root's servers are kept."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from flows import settings
from flows.settings import Settings
from flows.store.embedded import EmbeddedServer


@contextmanager
def temporary_home(prefix: str = "gs-") -> Iterator[Settings]:
    """Give settings of a home of its own; its server is stopped and everything removed at the end."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as home:
        config = settings.load({"GITSTRATA_HOME": home})
        try:
            yield config
        finally:
            if config.server_dir.exists():
                EmbeddedServer(config.server_dir).stop()
                shutil.rmtree(config.server_dir, ignore_errors=True)
