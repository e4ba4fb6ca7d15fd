"""The only reader of the environment."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.errors import UsageError

NOT_A_PLACE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS})
ROOT_STATE = Path("/var/lib/gitstrata")  # root's home is usually closed to the user that runs Postgres


@dataclass(frozen=True, slots=True)
class Jwt:
    """Whose tokens count beside the tokens file's, as they were given; ``mcp_tools/jwt_tokens.py`` checks them."""

    issuer: str
    audience: str
    keys: str  # where the provider's public keys are: a URL or a file
    projects_claim: str
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things are kept and which database and model are used."""

    home: Path  # mirrors, scratch, and the embedded server unless root runs it
    server_dir: Path  # data directory and logs of the embedded Postgres
    dsn: str | None  # None = the embedded server
    model: str  # of an index that has none yet: "" = the shipped one; else a name, a folder or an endpoint
    postgres_bin: Path | None  # GITSTRATA_PG_BIN: a bin folder to use instead of the wheel's
    tokens_file: Path | None = None  # who may ask over HTTP; None = whoever is on this machine
    jwt: Jwt | None = None  # an identity provider whose tokens count over HTTP

    def refusal(self) -> str:
        """Say why nothing can be written in ``home``, or in the folder where it would be made; "" if it can."""
        place = self.home
        while not place.exists() and place != place.parent:
            place = place.parent
        try:
            with tempfile.TemporaryFile(dir=place):
                return ""
        except OSError as error:
            return error.strerror or str(error)

    @property
    def scratch(self) -> Path:
        return self.home / "scratch"

    @property
    def mirrors(self) -> Path:
        return self.home / "mirrors"

    @property
    def has_tokens(self) -> bool:
        """Whether requests over HTTP must bring a token."""
        return self.tokens_file is not None or self.jwt is not None


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read ``GITSTRATA_HOME``, ``_DSN``, ``_MODEL``, ``_PG_BIN``, ``_TOKENS_FILE`` and ``_JWT_*``."""
    env = os.environ if environ is None else environ
    home = _home(env)
    return Settings(
        home=home,
        server_dir=_server_dir(home),
        dsn=env.get("GITSTRATA_DSN") or None,
        model=env.get("GITSTRATA_MODEL", ""),
        postgres_bin=_path(env, "GITSTRATA_PG_BIN"),
        tokens_file=_path(env, "GITSTRATA_TOKENS_FILE"),
        jwt=_jwt(env),
    )


def _jwt(env: Mapping[str, str]) -> Jwt | None:
    names = ("ISSUER", "AUDIENCE", "KEYS", "PROJECTS_CLAIM", "ALGORITHMS")
    issuer, audience, keys, claim, algorithms = (env.get(f"GITSTRATA_JWT_{name}", "") for name in names)
    if not (issuer or audience or keys or claim or algorithms):
        return None
    chosen = tuple(name.strip() for name in (algorithms or "RS256,ES256").split(",") if name.strip())
    return Jwt(issuer, audience, keys, claim or "projects", chosen)


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]).expanduser() if env.get(name) else None


def _home(env: Mapping[str, str]) -> Path:
    if env.get("GITSTRATA_HOME"):
        return Path(env["GITSTRATA_HOME"]).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("gitstrata", appauthor=False)).absolute()


def _server_dir(home: Path) -> Path:
    """Return the folder of the embedded server: below ``home``, or for root below /var/lib, one per home."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return ROOT_STATE / hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return home / "postgres"


MODEL_KEY = "GITSTRATA_MODEL_KEY"


def model_key() -> str:
    """Return the key of an embedding endpoint, "" if it needs none. It is never stored, logged or shown."""
    return secret(MODEL_KEY) if os.environ.get(MODEL_KEY) else ""


def secret(name: str) -> str:
    """Return the value of an environment variable that a repository file names for its credentials.

    Raises:
        UsageError: it is not set.
    """
    if not os.environ.get(name):
        raise UsageError(f"the environment variable {name} is not set: a repository file names it for its credentials")
    return os.environ[name]


_GIT_KEPT = (
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_",
    "GIT_PROXY_",
    "GIT_HTTP_",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
)


def git_environment() -> dict[str, str]:
    """Return the environment for git children, without variables that point git at another repository or index."""
    return {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith(_GIT_KEPT)}
