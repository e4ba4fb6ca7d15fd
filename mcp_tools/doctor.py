"""``gitstrata doctor``: whether everything that search and server need is in order, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows import settings as settings_module
from flows import urls
from flows.errors import ConfigError, DatabaseError, GitstrataError
from flows.settings import Jwt, Settings
from flows.wording import counted

if TYPE_CHECKING:
    from flows.store.connect import Connection, Database

OLD_DAYS = 7  # since the newest publish
SOON_DAYS = 14  # until a token expires
MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at: ``ok``, ``note`` (worth knowing) or ``failed`` (something does not work)."""

    check: str
    state: str
    detail: str
    fix: str = ""


def examine(folder: Path) -> list[Finding]:
    """Look at everything; never raises what a user can put right."""
    settings = settings_module.load()
    findings = list(_settings(settings))
    findings += _database(settings)
    if settings.tokens_file is not None:
        findings += _tokens(settings.tokens_file)
    if settings.jwt is not None:
        findings += provider(settings.jwt)
    findings += _repository_files(folder)
    return findings


def to_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return plain values."""
    ok = not any(finding.state == "failed" for finding in findings)
    return {"ok": ok, "findings": [asdict(finding) for finding in findings]}


def shown(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield lines for people."""
    for finding in findings:
        yield f"{finding.state:6}  {finding.check}: {finding.detail}"
        if finding.fix:
            yield f"        -> {finding.fix}"
    failed = sum(finding.state == "failed" for finding in findings)
    yield counted(failed, "problem") if failed else "all is well"


def _settings(settings: Settings) -> Iterator[Finding]:
    if refusal := settings.refusal():
        fix = "change its owner, or choose another folder with GITSTRATA_HOME"
        yield Finding("home", "failed", f"{settings.home} cannot be written: {refusal}", fix)
    else:
        yield Finding("home", "ok", str(settings.home))


# --- the database --------------------------------------------------------------------------------------------------


def _database(settings: Settings) -> Iterator[Finding]:
    from flows.store import connect

    kind = "GITSTRATA_DSN" if settings.dsn else "the embedded server"
    try:
        database = connect.open_database(settings)
    except GitstrataError as error:
        fix = (
            "check that the server runs and that GITSTRATA_DSN names it"
            if settings.dsn
            else f"look at the logs in {settings.server_dir / 'log'}"
        )
        said = urls.redact(str(error))
        yield Finding("database", "failed", f"{kind}: {said}", "" if "run `" in said else fix)
        return
    with database, database.connect() as connection:
        yield Finding("database", "ok", f"{kind}: {_versions(connection)}, schema {connect.schema_version()}")
        yield from _projects(connection)
        yield from _model(connection, settings)
        yield from _index(connection, database)


def _versions(connection: Connection) -> str:
    from flows.store import health

    return ", ".join(f"{name} {version}" for name, version in health.versions(connection))


def _projects(connection: Connection) -> Iterator[Finding]:
    from flows.store import read

    try:
        with read.snapshot(connection, []):
            pass
    except DatabaseError as error:
        yield Finding("projects", "note", str(error), "only needed where tokens or --project limit requests")


def _model(connection: Connection, settings: Settings) -> Iterator[Finding]:
    from flows.embed.shelf import Shelf
    from flows.store import models

    model = models.active_model(connection)
    if model is None:
        yield Finding("model", "note", "none yet: the first index chooses it")
        return
    try:
        embedder = Shelf(settings.model).find(model.setting, model.fingerprint, model.dimension)
        embedder.embed_query("doctor")
    except GitstrataError as error:
        fix = "until then search goes by words; gitstrata model set default builds vectors of the shipped model"
        yield Finding("model", "failed", urls.redact(str(error)), fix)
        return
    yield Finding("model", "ok", f"{model.name}, {model.dimension} dimensions")
    if said := models.advice(model, models.building_model(connection), settings.model):
        yield Finding("model", "note", urls.redact(said))


def _index(connection: Connection, database: Database) -> Iterator[Finding]:
    from flows.store import health, read, runs

    found = health.health(connection)
    if not found.branches or found.published_at is None:
        fix = "run gitstrata index in a checkout, or gitstrata sync --config repos.d"
        yield Finding("index", "note", "empty: nothing is indexed yet", fix)
    else:
        age = datetime.now(UTC) - found.published_at
        state = "note" if age.days >= OLD_DAYS else "ok"
        size = f"{counted(found.branches, 'branch', 'branches')}, {counted(found.chunks, 'chunk')}"
        detail = f"{size}, newest publish {_ago(age.total_seconds())} ago"
        yield Finding("index", state, detail, "does CI call gitstrata sync?" if state == "note" else "")
    if found.behind:
        yield Finding(
            "freshness",
            "note",
            f"{counted(found.behind, 'branch is', 'branches are')} behind the head",
            "run gitstrata sync --all",
        )
    failed = [f"{info.repo} {info.name}" for info in read.branches(connection, "", "*") if info.last_failed]
    failed += [
        f"{run.repo} {run.branch}".removesuffix(" *") for run in runs.unpublished(connection) if run.outcome == "failed"
    ]
    if failed:
        named = ", ".join(failed[:MAX_NAMED]) + (f" and {len(failed) - MAX_NAMED} more" if failed[MAX_NAMED:] else "")
        fix = "gitstrata status --repo NAME says why; run gitstrata sync NAME again"
        yield Finding("runs", "failed", f"the last run failed for {named}", fix)
    if found.failed_files:
        yield Finding(
            "files", "note", f"{counted(found.failed_files, 'file')} could not be cut", "the next run tries again"
        )


def _ago(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} seconds"


# --- files ---------------------------------------------------------------------------------------------------------


def _tokens(path: Path) -> Iterator[Finding]:
    from mcp_tools import tokens

    try:
        known = tokens.read(path)
    except GitstrataError as error:
        fix = "correct it: gitstrata token new shows what a row looks like"
        yield Finding("tokens", "failed", _one_line(error), fix)
        return
    if tokens.is_open_to_others(path):
        yield Finding("tokens", "failed", f"{path} can be read or changed by everybody", f"run chmod 640 {path}")
    now = datetime.now(UTC)
    expired = [token.name for token in known if not token.is_valid(now)]
    soon = [
        token.name
        for token in known
        if token.is_valid(now) and token.expires and (token.expires - now).days < SOON_DAYS
    ]
    yield Finding("tokens", "ok", f"{counted(len(known) - len(expired), 'valid token')} in {path}")
    if expired or soon:
        said = "; ".join(
            f"{word}: {', '.join(names[:MAX_NAMED])}"
            for word, names in (("expired", expired), ("expire soon", soon))
            if names
        )
        yield Finding("tokens", "note", said, "make new ones with gitstrata token new, and remove the old rows")


def provider(jwt: Jwt) -> Iterator[Finding]:
    """Look at the keys of the identity provider."""
    import asyncio

    from mcp_tools import jwt_tokens

    try:
        jwt_tokens.check(jwt)
        keys = jwt_tokens.parse(asyncio.run(jwt_tokens.fetch(jwt.keys)), jwt.algorithms)
    except GitstrataError as error:
        fix = "until then no token of the identity provider counts: correct the GITSTRATA_JWT_ variables"
        yield Finding("identity provider", "failed", _one_line(error), fix)
        return
    count = len({id(key) for key in keys.values()})
    yield Finding("identity provider", "ok", f"{count} key{'' if count == 1 else 's'} at {jwt.keys}")


def _repository_files(folder: Path) -> Iterator[Finding]:
    from flows import config

    if not folder.is_dir():
        yield Finding("repos.d", "note", f"no folder {folder} here: only needed by gitstrata sync --config")
        return
    try:
        loaded = config.load(folder)
    except ConfigError as error:
        fix = f"gitstrata repos check {folder} shows every problem"
        yield Finding("repos.d", "failed", str(error.problems[0]), fix)
        return
    except GitstrataError as error:
        yield Finding("repos.d", "failed", _one_line(error))
        return
    yield Finding("repos.d", "ok", f"{counted(len(loaded.repos), 'repository', 'repositories')} in {folder}")


def _one_line(error: GitstrataError) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines())
