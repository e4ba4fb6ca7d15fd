"""Tokens of an identity provider (JWT): whose they are and which projects they name, by the keys that it publishes.

PyJWT checks signatures and claims. The keys are kept here: its own client holds up every request while it waits for
the provider, and forgets the keys when the provider is away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthenticationError
from starlette.routing import Route

from flows.errors import UsageError
from flows.settings import Jwt
from mcp_tools.access import ALL_PROJECTS
from mcp_tools.outage import Outage

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger("gitstrata")

# Signed by the provider's private key, checked by its public one. With HS256 whoever can check could also sign, and
# where both kinds are allowed a public key passes for a shared secret; "none" is no signature.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
FRESH_SECONDS = 300  # that keys count before they are read again
LONGEST_SECONDS = 86_400  # that they count while they cannot be: a provider that is away takes no key back
PAUSE_SECONDS = 10  # between two tries, whatever made-up keys are asked for
FETCH_SECONDS = 5
LEEWAY_SECONDS = 30  # that clocks may differ
CLAIMS = ("exp", "iss", "aud", "sub")  # that a token must have
ANY, UNNAMED = "\0any", ""  # the ids of a key without one, and of the key of a token that names none
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Refused(AuthenticationError):
    """A token that does not count, and why."""


class KeysAway(AuthenticationError):
    """A token that cannot be checked now."""


def check(provider: Jwt) -> None:
    """Raise UsageError for settings that cannot work."""
    for name, value in (("ISSUER", provider.issuer), ("AUDIENCE", provider.audience), ("KEYS", provider.keys)):
        if not value:
            raise UsageError(f"GITSTRATA_JWT_{name} is not set: an identity provider needs ISSUER, AUDIENCE and KEYS")
    for name in provider.algorithms:
        if name not in ALGORITHMS:
            raise UsageError(f"GITSTRATA_JWT_ALGORITHMS: {name!r} is not one of {', '.join(ALGORITHMS)}")
    parts = urlsplit(provider.keys)
    if "://" not in provider.keys:
        parse(_read(provider.keys), provider.algorithms)
    elif parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise UsageError("GITSTRATA_JWT_KEYS: keys that come over the network come by https, or from this machine")


@dataclass(frozen=True, slots=True)
class Description:
    """Where clients find out which provider to log in at (RFC 9728), and what answers there."""

    url: str
    routes: Sequence[Route]


def description(provider: Jwt) -> Description | None:
    """Return what tells clients of the provider, if issuer and audience are addresses, as OAuth's are."""
    if not (provider.issuer.startswith("https://") and provider.audience.startswith("https://")):
        return None
    from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
    from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter

    url = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True)).validate_python  # issuers are exact
    resource = url(provider.audience)
    routes = create_protected_resource_routes(resource, [url(provider.issuer)])
    return Description(str(build_resource_metadata_url(resource)), routes)


# --- keys ----------------------------------------------------------------------------------------------------------


class Keys:
    """The provider's public keys by id and algorithm. Of one event loop."""

    def __init__(self, provider: Jwt) -> None:
        self._where, self._algorithms = provider.keys, provider.algorithms
        self._known: Mapping[tuple[str, str], PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")
        self._outage = Outage("the keys of the identity provider cannot be read")
        self._reading: asyncio.Task[None] | None = None
        self.problem = ""  # why they could not be read when last tried

    async def find(self, name: str, algorithm: str) -> PyJWK | None:
        """Return a key, None if the provider has no such key.

        Only who brings a key that is not known waits for the provider; all others go on with those that are.

        Raises:
            KeysAway: the keys cannot be read, so that nobody knows.
        """
        key = self._usable(name, algorithm)
        if key is None:
            self.refresh()
            if self._reading is not None:
                await asyncio.shield(self._reading)
            key = self._usable(name, algorithm)
        elif time.monotonic() - self._read_at > FRESH_SECONDS:
            self.refresh()
        if key is None and self.problem:
            raise KeysAway(self.problem)
        return key

    def refresh(self) -> None:
        """Have the keys read beside everything else, unless that is going on or was tried just now."""
        if self._reading is None and time.monotonic() - self._tried_at > PAUSE_SECONDS:
            self._reading = asyncio.create_task(self._refresh())

    def _usable(self, name: str, algorithm: str) -> PyJWK | None:
        if time.monotonic() - self._read_at > LONGEST_SECONDS:
            return None
        return self._known.get((name, algorithm)) or self._known.get((ANY, algorithm))

    async def _refresh(self) -> None:
        try:
            self._known = parse(await fetch(self._where), self._algorithms)
            self._read_at, self.problem = time.monotonic(), ""
            self._outage.ended()
        except UsageError as error:
            self.problem = self._outage.describe(str(error))
            log.error("%s; those read before count for %d hours", self.problem, LONGEST_SECONDS // 3600)
        finally:
            self._tried_at, self._reading = time.monotonic(), None


async def fetch(where: str) -> bytes:
    """Return what stands at a URL or in a file; raises UsageError."""
    if "://" not in where:
        return _read(where)
    try:
        async with httpx2.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False) as client:
            answer = await asyncio.wait_for(client.get(where), FETCH_SECONDS)
    except (httpx2.HTTPError, TimeoutError) as error:
        raise UsageError(f"{where}: {error or 'no answer in time'}") from error
    if answer.status_code != 200:
        raise UsageError(f"{where}: HTTP {answer.status_code}")
    return answer.content


def _read(where: str) -> bytes:
    try:
        return Path(where).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"the keys in {where} cannot be read: {error.strerror or error}") from error


def parse(data: bytes, algorithms: tuple[str, ...]) -> dict[tuple[str, str], PyJWK]:
    """Return the keys of a JWK set or of a PEM file; a key counts for its own algorithm, or for each that it fits.

    Raises:
        UsageError: there is none that fits.
    """
    import jwt

    keys = _pem(data) if data.lstrip().startswith(b"-----") else _set(data)
    found: dict[tuple[str, str], PyJWK] = {}
    for key in keys:
        names = {str(key.get("kid", ANY)), *([UNNAMED] if len(keys) == 1 else [])}
        for algorithm in algorithms:
            if key.get("use", "sig") == "sig" and key.get("alg", algorithm) == algorithm:
                try:
                    found |= dict.fromkeys([(name, algorithm) for name in names], jwt.PyJWK(key, algorithm))
                except jwt.PyJWTError:  # it is of another kind
                    continue
    if not found:
        raise UsageError(f"there is no key for {', '.join(algorithms)} among {len(keys)}")
    return found


def _set(data: bytes) -> list[dict[str, Any]]:
    try:
        keys = json.loads(data)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError("the keys are neither a JWK set nor PEM") from error
    return [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []


def _pem(data: bytes) -> list[dict[str, Any]]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from jwt import algorithms

    if b"PRIVATE KEY" in data:
        raise UsageError("the key is a private one, which belongs to the provider: give its public half")
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError("the keys are neither a JWK set nor PEM of a public key") from error
    if isinstance(key, rsa.RSAPublicKey):
        return [algorithms.RSAAlgorithm.to_jwk(key, as_dict=True)]
    if isinstance(key, ec.EllipticCurvePublicKey):
        return [algorithms.ECAlgorithm.to_jwk(key, as_dict=True)]
    return [algorithms.OKPAlgorithm.to_jwk(key, as_dict=True)] if isinstance(key, ed25519.Ed25519PublicKey) else []


# --- tokens --------------------------------------------------------------------------------------------------------


class JwtVerifier:
    """The SDK's interface for tokens, over an identity provider."""

    def __init__(self, provider: Jwt) -> None:
        self._provider = provider
        self.keys = Keys(provider)

    async def verify_token(self, token: str) -> AccessToken:
        """Return whose token this is.

        Raises:
            Refused: it does not count.
            KeysAway: the provider's keys cannot be read.
        """
        claims = await self._claims(token)
        projects = self._projects(claims)
        return AccessToken(
            token="",
            client_id=_name(claims["sub"]),
            scopes=[],
            claims={"projects": None if ALL_PROJECTS in projects else projects},
        )

    async def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        provider = self._provider
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in provider.algorithms:
                raise Refused(f"the token is not signed by {' or '.join(provider.algorithms)}")
            key = await self.keys.find(header.get("kid", UNNAMED), algorithm)
            if key is None:
                raise Refused("the token is signed by a key that the identity provider does not have")
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=provider.audience,
                issuer=provider.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": list(CLAIMS), "enforce_minimum_key_length": True},
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise Refused(_reason(error)) from error

    def _projects(self, claims: Mapping[str, Any]) -> list[str]:
        """Return the projects of a claim, a list or words; what can be no project's name is left out."""
        given = claims.get(self._provider.projects_claim)
        names = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
        known = [name for name in names if isinstance(name, str)]
        projects = [name for name in known if name == ALL_PROJECTS or _PROJECT.fullmatch(name)]
        if not projects:
            raise Refused(f"the token names no project in its claim {self._provider.projects_claim}")
        return projects


def _name(subject: str) -> str:
    """Return a subject as the access log shows it; the prefix keeps it apart from the names of the tokens file."""
    return "jwt:" + re.sub(r"[^A-Za-z0-9._@|/-]", "_", subject)[:100]


def _reason(error: Exception) -> str:
    import jwt

    reasons: dict[type[Exception], str] = {
        jwt.ExpiredSignatureError: "the token has expired",
        jwt.ImmatureSignatureError: "the token is not valid yet",
        jwt.InvalidAudienceError: "the token is for another audience",
        jwt.InvalidIssuerError: "the token is of another issuer",
        jwt.InvalidSignatureError: "the token's signature is wrong",
    }
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"the token has no claim {error.claim}"
    return reasons.get(type(error), "the token is no JSON web token that can be checked")
