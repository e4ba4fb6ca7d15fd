"""The keys of a repository file, how the defaults enter, and the JSON schema of them for editors."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from flows.config import values
from flows.config.repo import RepoConfig
from flows.select import Rules


def _text(pattern: str, longest: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", "maxLength": longest})


Name = Annotated[str, AfterValidator(values.check_name), _text(values.NAME, 200)]
Url = Annotated[str, AfterValidator(values.check_url)]
Glob = Annotated[str, Field(max_length=500), AfterValidator(values.check_glob)]
Branch = Annotated[str, Field(max_length=200), AfterValidator(values.check_branch)]
Language = Annotated[str, AfterValidator(values.check_language)]
Project = Annotated[str, AfterValidator(values.check_project), _text(values.PROJECT, 100)]
Owner = Annotated[str, AfterValidator(values.check_owner)]
Variable = Annotated[str, AfterValidator(values.check_variable), _text(values.VARIABLE, 100)]
Size = Annotated[
    int,
    BeforeValidator(values.check_size),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": f"^{values.SIZE}$"}]}),
]
Globs = Annotated[list[Glob], Field(max_length=1_000)]
Allow = Annotated[Globs, AfterValidator(values.check_allow)]
Branches = Annotated[list[Branch], Field(max_length=100), AfterValidator(values.check_branches)]


def _key(description: str, *examples: Any, default: Any) -> Any:
    """Return a key that may be left out; the schema shows no default, since _defaults.yaml may have another."""
    return Field(default_factory=lambda: default, description=description, examples=list(examples) or None)


class Defaults(BaseModel):
    """What `_defaults.yaml` may say for all repositories: the keys of a repository file but name and url."""

    model_config = ConfigDict(extra="forbid", strict=True)

    branches: Branches = _key(
        "Branches to index: names or globs; `!` excludes. Without it, or empty: the default branch. "
        "Replaces the list of _defaults.yaml.",
        ["main", "release/*", "!release/old-*"],
        default=(),
    )
    allow: Allow = _key(
        "gitignore-style globs on paths from the repository's root: only what they match is indexed. Without it: "
        "everything. Replaces the list of _defaults.yaml.",
        ["src/", "*.md"],
        default=(),
    )
    deny: Globs = _key(
        "gitignore-style globs on paths from the repository's root: what they match is never read, stored or named. "
        "Deny wins over allow. Added to the list of _defaults.yaml, after it: `!dist/` lets in again what it denies.",
        ["testdata/", "*.pem"],
        default=(),
    )
    projects: Annotated[list[Project], Field(max_length=100)] = _key(
        "Projects that the repository belongs to; a search can be limited to one. Replaces the list of _defaults.yaml.",
        ["payments"],
        default=(),
    )
    owner: Owner = _key("Team or person who answers for the repository.", "platform team", default="")
    languages: Annotated[list[Language], Field(max_length=100)] = _key(
        "Only files in these languages are indexed. Without it, or empty: all. Replaces the list of _defaults.yaml.",
        ["python", "markdown"],
        default=(),
    )
    max_file_size: Size = _key(
        "Larger files are listed, not indexed: bytes, or text such as 500 kB, 1MB or 1MiB; from 1 kB to 100 MB. "
        "Without it: 1MB.",
        "500 kB",
        default=Rules().max_bytes,
    )
    include_generated: bool = _key("Index generated files in full too.", default=False)
    include_vendored: bool = _key("Index vendored files in full too.", default=False)
    credentials_env: Variable = _key(
        "NAME of the environment variable that holds the token for an https URL; never the token itself. "
        "Without it: git's own credential helpers and ssh.",
        "ACME_GIT_TOKEN",
        default="",
    )


class RepoFile(Defaults):
    """One repository that gitstrata indexes."""

    name: Name = Field(description="Name in searches and answers, unique in the folder.", examples=["acme/billing"])
    url: Url = Field(
        description="Where git fetches it: https://, ssh:// or file:// URL, user@host:path or an absolute path; "
        "never with credentials.",
        examples=["https://github.com/acme/billing.git"],
    )


def keys(model: type[Defaults]) -> tuple[str, ...]:
    """Return the keys of a file in the order in which people write them."""
    return (*(key for key in ("name", "url") if key in model.model_fields), *Defaults.model_fields)


def apply_defaults(file: RepoFile, defaults: Defaults) -> RepoConfig:
    """Return the repository of ``file``: its keys replace those of ``defaults``, but its deny list follows theirs."""
    set_here = {key: getattr(file, key) for key in file.model_fields_set}
    merged = {key: getattr(defaults, key) for key in Defaults.model_fields} | set_here
    deny = (*defaults.deny, *file.deny)
    return RepoConfig(
        name=file.name,
        url=file.url,
        branches=tuple(dict.fromkeys(merged["branches"])),
        rules=Rules(
            allow=tuple(merged["allow"]),
            deny=deny,
            max_bytes=merged["max_file_size"],
            languages=tuple(dict.fromkeys(merged["languages"])),
            include_generated=merged["include_generated"],
            include_vendored=merged["include_vendored"],
        ),
        projects=tuple(dict.fromkeys(merged["projects"])),
        owner=merged["owner"],
        credentials_env=merged["credentials_env"],
    )


def json_schema() -> str:
    """Return the text of ``repos.d/schema.json``."""
    schema = RepoFile.model_json_schema()
    schema["properties"] = {key: schema["properties"][key] for key in keys(RepoFile)}
    for key in schema["properties"].values():
        key.pop("title", None)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A repository file of gitstrata"}
    return json.dumps(head | {key: value for key, value in schema.items() if key != "title"}, indent=2) + "\n"
