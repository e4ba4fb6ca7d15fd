"""The commands that show how a file is treated: explain, chunks. Added to the command line by ``mcp_tools/cli.py``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import settings as settings_module
from flows.errors import UsageError
from flows.wording import counted
from mcp_tools.summary import printable

if TYPE_CHECKING:
    from chunkers.chunk import Cut
    from flows import git
    from flows.decode import Facts
    from flows.explain import Explanation
    from flows.select import Rules
    from flows.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output, and nothing else there.")]
FOLDER = Path("repos.d")
SIGNATURE = 80  # characters of one in a list


def explain(
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Name of an indexed repository, or a folder in one.")],
    path: Annotated[str, typer.Argument(help="Path from the repository's root, as searches show it.")],
    rev: Annotated[str, typer.Option("--rev", help="Branch, tag or commit; by default the one that is indexed.")] = "",
    config: Annotated[
        Path | None, typer.Option("--config", help="Folder of repository files, to say where a rule stands.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say whether a file is indexed, skipped or denied, which rule decided, and how it is cut.

    A path that a rule denies is not looked up: the answer is the same whether it exists or not.
    """
    from flows.config import places
    from flows.explain import explain as ask

    name, repository, commit, rules = _open(settings_module.load(), repo, rev)
    answer = ask(repository, commit, rules, path)
    folder = config or (FOLDER if FOLDER.is_dir() else None)
    place = places.find(folder, name, answer.key, answer.entry) if folder and answer.key else ""
    print(
        json.dumps(asdict(answer) | {"place": place}, ensure_ascii=False)
        if as_json
        else printable(_explained(answer, place))
    )


def _open(settings: Settings, repo: str, rev: str) -> tuple[str, git.Repository, git.Commit, Rules]:
    """Return name, objects, commit and rules of a repository, given by name or folder."""
    from flows import adhoc, git, urls
    from flows.config import RepoConfig
    from flows.select import Rules
    from flows.store import read, repos
    from flows.store.connect import open_database

    with open_database(settings) as database, database.connect() as connection:
        branches = read.branches(connection, "", "*")
        configs = {item.name: RepoConfig.from_json(item.config) for item in repos.configured(connection)}
    is_folder = Path(repo).is_dir()
    if is_folder:
        repository = git.open_repository(Path(repo))
        indexed = (info.repo for info in branches if info.origin == repository.origin)
        name = next(indexed, urls.short_name(repository.origin))
    else:
        name = repo
        origins = {key: urls.canonical_url(value.url) for key, value in configs.items()}
        origins |= {info.repo: info.origin for info in branches}
        if name not in origins:
            raise UsageError(f"unknown repo {name!r}: gitstrata status lists what there is; a folder will do, too")
        repository = git.open_repository(_objects(name, adhoc.mirror_of(settings, origins[name]), Path(origins[name])))
    shown = next((info.commit_sha for info in branches if info.repo == name and info.is_default), "")
    commit = git.resolve(repository, rev or ("" if is_folder else shown))
    return name, repository, commit, configs[name].rules if name in configs else Rules()


def _objects(name: str, *folders: Path) -> Path:
    """Return the first folder that is there: a mirror, or a local repository without a remote."""
    for folder in folders:
        if folder.is_absolute() and folder.is_dir():
            return folder
    raise UsageError(f"no objects of {name} are on this machine: give the folder of a clone instead of its name")


def _explained(answer: Explanation, place: str) -> str:
    rule = answer.rule + (f" ({place})" if place else "")
    if answer.verdict == "denied":
        return f"{answer.path}: denied by {rule}; nothing is said of what is denied, not even whether it exists"
    if answer.verdict == "unknown":
        return f"{answer.path}: no such file at {answer.commit[:12]}, and no rule denies it"
    lines = [f"{answer.path} at {answer.commit[:12]}: {answer.verdict}"]
    if answer.reason:
        lines += [f"  reason   {answer.reason}: {answer.meaning}", f"  rule     {rule}"]
    if answer.language:
        lines.append(f"  language {answer.language} ({answer.category})")
    if answer.encoding:
        replaced = f", undecodable bytes: {answer.undecodable}" if answer.undecodable else ""
        masked = f", secrets masked: {answer.masked}" if answer.masked else ""
        lines.append(f"  content  {answer.encoding}, {counted(answer.lines, 'line')}{replaced}{masked}")
    if answer.chunks:
        lines.append("  chunks   " + ", ".join(f"{count} {level}" for level, count in answer.chunks.items()))
    if answer.fallback:
        lines.append(f"  cut by lines: {answer.fallback}")
    return "\n".join(lines)


def chunks(
    path: Annotated[Path, typer.Argument(help="A file on this machine, in a repository or not.")],
    language: Annotated[str, typer.Option("--language", "-l", help="Cut it as this; by default its name tells.")] = "",
    as_json: Json = False,
) -> None:
    """Cut a file as indexing would, and list its chunks: level, anchor, lines, signature. Nothing is stored."""
    from chunkers import cut, languages
    from flows.decode import decode

    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    text, facts = decode(raw)
    if facts.binary or facts.lfs:
        raise UsageError(f"{path} has no text to cut: it is {'binary' if facts.binary else 'an LFS pointer'}")
    by_name = languages.detect(path.name)
    row = (
        by_name if by_name is not languages.DEFAULT else languages.by_content(facts.shebang, facts.modeline) or by_name
    )
    try:
        chosen = languages.get(language) if language else row
    except KeyError as error:
        raise UsageError(str(error.args[0])) from error
    made = cut.cut(text, chosen)
    if as_json:
        rows = [{key: value for key, value in asdict(chunk).items() if key != "parent"} for chunk in made.chunks]
        head = {"language": chosen.name, "encoding": facts.encoding, "masked": facts.masked, "fallback": made.fallback}
        print(json.dumps(head | {"lines": made.lines, "chunks": rows}, ensure_ascii=False))
    else:
        print(printable(_listed(made, chosen.name, facts)))


def _listed(made: Cut, language: str, facts: Facts) -> str:
    lines = [f"{language}, {facts.encoding}, {counted(made.lines, 'line')}, {counted(len(made.chunks), 'chunk')}"]
    if made.fallback:
        lines.append(f"cut by lines: {made.fallback}")
    width = max((len(chunk.anchor) for chunk in made.chunks), default=0)
    for chunk in made.chunks:
        place = f"{chunk.start_line}-{chunk.end_line}"
        lines.append(f"{chunk.level:6} {chunk.anchor:{width}} {place:>11}  {chunk.signature[:SIGNATURE]}".rstrip())
    return "\n".join(lines)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (explain, chunks):
        app.command()(command)
