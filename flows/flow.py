"""The CocoIndex flow: read a blob, decode it, cut it, embed texts never seen, write its rows.

One component a blob, so that a bad file fails alone; batches of embeddings and of rows span blobs. Nothing here is
durable but the rows in Postgres: the engine's own state lives in a scratch folder that is removed after the run, and
the sink needs no previous state. Vectors never pass through the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["COCOINDEX_DISABLE_USAGE_TRACKING"] = "1"  # before the import, which would report itself
os.environ["RUST_LOG"] = "off"  # the engine logs to standard output; what goes wrong comes by its handler

import cocoindex as coco

from flows import content, select
from flows.decode import Facts
from flows.errors import Interrupted, SourceError
from flows.git import ObjectReader
from flows.store.connect import Connection
from flows.store.cuts import BlobRows, BlobTask, CutRows, write_blobs
from flows.store.texts import TextStore, text_hash

SLICE = 20_000  # blobs mounted at once: about 4 kB of memory each
IN_FLIGHT = 256  # components at work at once; each holds one file's text and cuts
EMBED_BATCH = 64  # blobs whose texts go to the database and the model together


@dataclass(slots=True)
class Flow:
    """What the components of a run share, and what they find out."""

    reader: ObjectReader
    texts: TextStore
    connection: Connection  # of the sink; the text store has its own
    rules: select.Rules
    broken: frozenset[int]  # cuts to be written anew
    on_blob: Callable[[], None] = lambda: None
    facts: dict[str, Facts] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # object id -> reason: bad content, not a bad world
    world: list[BaseException] = field(default_factory=list)  # the first one ends the run
    cut_seconds: float = 0.0

    @coco.fn.as_async(batching=True, max_batch_size=EMBED_BATCH, runner=coco.GPU)
    def ensure_texts(self, batch: list[tuple[str, ...]]) -> list[tuple[int, ...]]:
        """Return the ids of each blob's texts, in order; fewer if the model has no usable vector for one of them.

        Runs in one thread of its own, one batch at a time.
        """
        ids = self.texts.ensure(text for texts in batch for text in texts)
        keys = [[text_hash(text) for text in texts] for texts in batch]
        return [tuple(ids[key] for key in texts if key in ids) for texts in keys]


_FLOW = coco.ContextKey[Flow]("gitstrata/flow")


class _BlobSink(coco.TargetHandler[BlobRows, bytes]):
    """A target that needs no memory: what is declared is written, what is there already stays."""

    def __init__(self) -> None:
        self._sink = coco.TargetActionSink[BlobRows].from_async_fn(self._write)

    def reconcile(
        self,
        key: coco.StableKey,
        desired: BlobRows | coco.NonExistenceType,
        previous: Collection[bytes],
        may_be_missing: bool,
        /,
    ) -> coco.TargetReconcileOutput[BlobRows, bytes] | None:
        if coco.is_non_existence(desired):
            return None
        return coco.TargetReconcileOutput(desired, self._sink, b"")

    async def _write(self, context: coco.ContextProvider, blobs: Sequence[BlobRows]) -> None:
        flow = context.get(_FLOW)
        await asyncio.to_thread(write_blobs, flow.connection, blobs, flow.broken, flow.texts.active.model)


_BLOBS = coco.register_root_target_states_provider("gitstrata/blob", _BlobSink())


@coco.fn
async def process_blob(task: BlobTask) -> None:
    """Read, decode, cut and embed one blob, and declare its rows."""
    flow = coco.use_context(_FLOW)
    if flow.world:
        return
    try:
        body, facts, cuts = content.cut_blob(flow.reader, task, flow.rules)
    except Exception as error:  # whatever the content did to a decoder or chunker: this file fails, no other
        flow.failed[task.oid] = content.said(error)
        flow.on_blob()
        return
    texts = tuple(chunk.text for _, made in cuts for chunk in made.chunks)
    ids = await flow.ensure_texts(texts) if texts else ()
    if len(ids) == len(texts):
        taken = iter(ids)
        rows = tuple(CutRows(key, made, tuple(next(taken) for _ in made.chunks)) for key, made in cuts)
        flow.facts[task.oid] = facts
        coco.declare_target_state(_BLOBS.target_state(task.oid, BlobRows(task.oid, task.size, facts, body, rows)))
    else:
        flow.failed[task.oid] = "the model has no usable vector for one of its chunks"
    flow.on_blob()


@coco.fn
async def process_commit(tasks: tuple[BlobTask, ...]) -> None:
    """Mount one component for each blob that the database does not hold."""
    await coco.mount_each(coco.component_subpath("blob"), process_blob, [(task.oid, task) for task in tasks])


def run_flow(flow: Flow, tasks: Sequence[BlobTask], scratch: Path) -> None:
    """Bring the rows of all ``tasks`` into the database.

    Bad content ends up in ``flow.failed``. A failing world (database, model, disk) raises; all finished work stays.
    """
    for start in range(0, len(tasks), SLICE):
        with asyncio.Runner() as runner, _stopped_by_signals(flow):
            runner.run(_update(flow, tuple(tasks[start : start + SLICE]), scratch))
        if flow.world:
            raise flow.world[0]


@contextlib.contextmanager
def _stopped_by_signals(flow: Flow) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the run between two blobs; an exception amid the engine's threads ends in a crash."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        flow.world.append(Interrupted("stopped; finished work is kept, run it again to go on"))

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _update(flow: Flow, tasks: tuple[BlobTask, ...], scratch: Path) -> None:
    def on_error(error: BaseException, context: Any) -> None:
        flow.world.append(error)

    with _scratch_folder(scratch) as folder:
        context = coco.ContextProvider()
        context.provide(_FLOW, flow)
        environment = coco.Environment(
            coco.Settings.from_env(folder), name="sync", context_provider=context, exception_handler=on_error
        )
        try:
            config = coco.AppConfig("sync", environment=environment, max_inflight_components=IN_FLIGHT)
            handle = coco.App(config, process_commit, tasks).update()
            await handle
            stats = handle.stats()
            if stats is not None and stats.total.num_errors and not flow.world:
                flow.world.append(SourceError(f"{stats.total.num_errors} files failed in the engine: run this again"))
        finally:
            environment.close()


@contextlib.contextmanager
def _scratch_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for the engine's state, and sweep those that killed runs left behind."""
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.glob("run-*"):
        _remove_if_abandoned(old)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
