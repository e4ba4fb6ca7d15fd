"""Tokens of an identity provider: which count, what is said of the others, and what happens while its keys are away."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthenticationError

from flows import settings
from flows.errors import UsageError
from flows.settings import Jwt, Settings
from mcp_tools import doctor, jwt_tokens, serve_http
from mcp_tools.jwt_tokens import JwtVerifier, KeysAway, Refused
from mcp_tools.serve_http import Options
from tests.mcp_tools import http_server
from tests.mcp_tools.http_server import connected, post
from tests.mcp_tools.test_serve_http import PAY, ROWS, said, write_tokens

ISSUER, AUDIENCE = "https://id.example.org", "https://code.example.org/mcp"
FAMILIES = {"RS": RSAAlgorithm, "PS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}


def private(algorithm: str, number: int = 0) -> Any:
    """Return a key of the provider by its kind and number, the same all the time."""
    return _private("RS256" if algorithm[:2] in ("RS", "PS") else algorithm, number)


@functools.cache
def _private(algorithm: str, number: int) -> Any:
    if algorithm == "RS256":
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else ed25519.Ed25519PrivateKey.generate()


def jwk(algorithm: str = "RS256", kid: str = "one", number: int = 0, **more: str) -> dict[str, Any]:
    """Return a public key as a provider shows it."""
    key = FAMILIES[algorithm[:2]].to_jwk(private(algorithm, number).public_key(), as_dict=True)  # type: ignore[attr-defined]
    key.pop("key_ops", None)
    return {**key, "use": "sig", "alg": algorithm, "kid": kid, **more}


def token(algorithm: str = "RS256", kid: str | None = "one", key: Any = None, **changes: Any) -> str:
    """Return a token of the provider; a claim that is None is left out."""
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now + 600, "projects": ["pay"], **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key or private(algorithm), algorithm, {"kid": kid} if kid is not None else None)


@dataclass
class Provider:
    """An identity provider's keys on this machine, for as long as it is up."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=lambda: [jwk()])
    status: int = 200
    asked: int = 0

    def settings(self, **changes: Any) -> Jwt:
        return replace(Jwt(ISSUER, AUDIENCE, self.url, "projects", ("RS256", "ES256")), **changes)


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked += 1
            self.send_response(made.status)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": made.keys}).encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}/keys"
    yield made
    server.shutdown()
    server.server_close()


def verify(provider: Jwt, *tokens: str) -> list[AccessToken | AuthenticationError]:
    """Return what becomes of tokens, one after the other."""

    async def each() -> list[AccessToken | AuthenticationError]:
        verifier, results = JwtVerifier(provider), list[AccessToken | AuthenticationError]()
        for given_token in tokens:
            try:
                results.append(await verifier.verify_token(given_token))
            except AuthenticationError as error:
                results.append(error)
        return results

    return anyio.run(each)


def refused(provider: Jwt, given_token: str) -> str:
    (error,) = verify(provider, given_token)
    assert isinstance(error, Refused), error
    return str(error)


def unsigned(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes = b"") -> str:
    """Return a token as an attacker writes it, with an HMAC if there is a secret."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signature = hmac.digest(secret, b".".join(parts), hashlib.sha256) if secret else b""
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


# --- which tokens count --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "EdDSA"])
def test_a_signed_token_says_who_and_which_projects(provider: Provider, algorithm: str) -> None:
    provider.keys = [jwk(algorithm), jwk("RS256", "other", 1)]
    (found,) = verify(provider.settings(algorithms=(algorithm,)), token(algorithm))
    assert isinstance(found, AccessToken)
    assert (found.client_id, found.claims, found.token) == ("jwt:ada", {"projects": ["pay"]}, "")


@pytest.mark.parametrize(
    ("claim", "projects"),
    [
        (["pay", "web"], ["pay", "web"]),
        ("pay web", ["pay", "web"]),
        (["*"], None),
        (["pay", "no project", 3, "'; drop table repo; --"], ["pay"]),  # groups of a provider may have any name
    ],
)
def test_projects_are_a_list_or_words(provider: Provider, claim: object, projects: list[str] | None) -> None:
    settings = provider.settings(projects_claim="https://example.org/groups")
    (found,) = verify(settings, token(**{"https://example.org/groups": claim}))
    assert isinstance(found, AccessToken) and found.claims == {"projects": projects}


def test_a_name_cannot_break_the_log(provider: Provider) -> None:
    (found,) = verify(provider.settings(), token(sub="x\nwho=root tool=y" * 20))
    assert isinstance(found, AccessToken)
    assert found.client_id.startswith("jwt:x_who_root_tool_y") and len(found.client_id) == 104


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exp": 1_000_000}, "the token has expired"),
        ({"nbf": 4_000_000_000}, "the token is not valid yet"),
        ({"aud": "https://other.example.org"}, "the token is for another audience"),
        ({"aud": None}, "the token has no claim aud"),
        ({"iss": "https://evil.example"}, "the token is of another issuer"),
        ({"iss": None}, "the token has no claim iss"),
        ({"exp": None}, "the token has no claim exp"),
        ({"sub": None}, "the token has no claim sub"),
        ({"sub": 3}, "the token is no JSON web token that can be checked"),
        ({"projects": None}, "the token names no project in its claim projects"),
        ({"projects": []}, "the token names no project in its claim projects"),
        ({"projects": {"pay": True}}, "the token names no project in its claim projects"),
        ({"kid": "two"}, "the token is signed by a key that the identity provider does not have"),
        ({"key": rsa.generate_private_key(65537, 2048)}, "the token's signature is wrong"),
        ({"algorithm": "PS256"}, "the token is not signed by RS256 or ES256"),
        ({"algorithm": "ES256"}, "the token is signed by a key that the identity provider does not have"),
    ],
)
def test_other_tokens_are_refused_in_one_sentence(provider: Provider, changes: dict[str, Any], message: str) -> None:
    assert refused(provider.settings(), token(**changes)) == message


def test_no_signature_and_a_public_key_as_a_secret_are_refused(provider: Provider, tmp_path: Path) -> None:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": 4_000_000_000, "projects": ["*"]}
    public = private("RS256").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(public)
    for where in (provider.url, str(tmp_path / "key.pem")):
        settings = provider.settings(keys=where)
        for algorithm in ("none", "None", "HS256", "", None, ["RS256"], {"a": 1}):
            for secret in (b"", public):
                forged = unsigned({"alg": algorithm, "kid": "one", "typ": "JWT"}, claims, secret)
                assert "not signed by RS256 or ES256" in refused(settings, forged), algorithm
        for secret in (b"", public):  # says RS256, is none or an HMAC
            forged = unsigned({"alg": "RS256", "kid": "one"}, claims, secret)
            assert refused(settings, forged) == "the token's signature is wrong"
        head = {"alg": "RS256", "kid": "evil", "jku": "http://evil.example/keys", "jwk": jwk(number=1)}
        own = jwt.encode(claims, private("RS256", 1), "RS256", head)
        assert isinstance(verify(settings, own)[0], Refused)  # a key that the token itself brings


def test_a_shared_secret_among_the_keys_is_no_key(provider: Provider) -> None:
    shared = {"kty": "oct", "k": base64.urlsafe_b64encode(b"s" * 32).decode(), "kid": "shared"}
    provider.keys = [shared, jwk()]
    forged = jwt.encode({"iss": ISSUER}, "s" * 32, "HS256", {"kid": "shared"})
    assert "not signed by" in refused(provider.settings(), forged)
    provider.keys = [shared]
    (away,) = verify(provider.settings(), token())
    assert isinstance(away, KeysAway) and "no key for RS256, ES256 among 1" in str(away)


def test_a_short_key_is_refused(provider: Provider) -> None:
    weak = rsa.generate_private_key(65537, 1024)
    provider.keys = [{**RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True), "kid": "one"}]  # type: ignore[dict-item]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        signed = token(key=weak)
    assert "can be checked" in refused(provider.settings(), signed)


@given(st.one_of(st.text(), st.builds("{0}.{1}.{2}".format, st.text(), st.text(), st.text())))
def test_nothing_that_is_sent_breaks_it(text: str) -> None:
    assert isinstance(verify(Jwt(ISSUER, AUDIENCE, "/nowhere", "projects", ("RS256",)), text)[0], AuthenticationError)


def test_a_deep_token_breaks_nothing(provider: Provider) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 10_000).rstrip(b"=").decode()
    assert "can be checked" in refused(provider.settings(), f"{deep}.{deep}.")


# --- keys ----------------------------------------------------------------------------------------------------------


def test_keys_of_a_file(provider: Provider, tmp_path: Path) -> None:
    public = private("ES256").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(public)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [jwk("ES256"), jwk("RS256", "two", use="enc")]}))
    for name in ("key.pem", "keys.json"):
        settings = provider.settings(keys=str(tmp_path / name))
        jwt_tokens.check(settings)
        assert isinstance(verify(settings, token("ES256"))[0], AccessToken)
    assert isinstance(verify(provider.settings(keys=str(tmp_path / "key.pem")), token("ES256", None))[0], AccessToken)
    assert isinstance(verify(provider.settings(keys=str(tmp_path / "keys.json")), token("RS256", "two"))[0], Refused)


def test_a_new_key_counts_when_a_token_brings_it(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    async def rotate() -> None:
        verifier = JwtVerifier(provider.settings())
        await verifier.verify_token(token())
        provider.keys = [jwk(kid="two", number=1)]
        for _ in range(20):  # made-up keys do not make us ask the provider again and again
            with contextlib.suppress(Refused):
                await verifier.verify_token(token(kid="made up"))
        assert provider.asked == 1
        monkeypatch.setattr(jwt_tokens, "PAUSE_SECONDS", 0)
        await verifier.verify_token(token(kid="two", key=private("RS256", 1)))
        with pytest.raises(Refused, match="does not have"):
            await verifier.verify_token(token())  # the old one is gone with the same answer
        assert provider.asked == 3

    anyio.run(rotate)


def test_known_keys_survive_a_provider_that_is_away(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    async def outage() -> None:
        verifier = JwtVerifier(provider.settings())
        await verifier.verify_token(token())
        provider.status = 500
        monkeypatch.setattr(jwt_tokens, "FRESH_SECONDS", 0)
        monkeypatch.setattr(jwt_tokens, "PAUSE_SECONDS", 0)
        for _ in range(5):
            assert (await verifier.verify_token(token())).client_id == "jwt:ada"
            await anyio.sleep(0.05)
        assert provider.asked > 2 and "HTTP 500" in verifier.keys.problem
        with pytest.raises(KeysAway, match=r"cannot be read since [\d:]{8} UTC"):
            await verifier.verify_token(token(kid="unknown"))
        monkeypatch.setattr(jwt_tokens, "LONGEST_SECONDS", 0)  # but not for ever
        with pytest.raises(KeysAway):
            await verifier.verify_token(token())
        monkeypatch.undo()
        provider.status = 200
        monkeypatch.setattr(jwt_tokens, "PAUSE_SECONDS", 0)
        with pytest.raises(Refused):
            await verifier.verify_token(token(kid="unknown"))
        assert verifier.keys.problem == ""

    anyio.run(outage)


def test_many_at_once_ask_the_provider_once(provider: Provider) -> None:
    async def together() -> None:
        verifier = JwtVerifier(provider.settings())
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(verifier.verify_token, token())

    anyio.run(together)
    assert provider.asked == 1


# --- over HTTP -----------------------------------------------------------------------------------------------------


def test_both_kinds_of_tokens_see_their_projects(filled: Settings, provider: Provider, tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens", ROWS)
    guarded = replace(filled, tokens_file=tmp_path / "tokens", jwt=provider.settings())
    with http_server.thread(serve_http.make_app(guarded, Options())) as address:
        for given_token, repos in (
            (token(), {"acme/pay"}),
            (token(projects="web pay"), {"acme/pay", "acme/web"}),
            (PAY[0], {"acme/pay"}),
            (token(projects=["nothing"]), set()),
            (token(projects=["*"]), {"acme/pay", "acme/web", "acme/loose"}),
        ):
            with connected(address, given_token) as client:
                branches = client.call("index_status").structured_content["branches"]
                assert {branch["repo"] for branch in branches} == repos
                outside = client.call("get_chunk", source_id="vault/zebra.py#ZebraVault")
                assert repos >= {"acme/web"} or (outside.is_error and "stripes" not in said(outside))
        expired, missing = post(address, token(exp=1)), post(address)
        assert (expired.status_code, missing.status_code) == (401, 401)
        assert expired.json() == {"error": "invalid_token", "error_description": "the token has expired"}
        where = "https://code.example.org/.well-known/oauth-protected-resource/mcp"
        for answer in (expired, missing):
            assert f'resource_metadata="{where}"' in answer.headers["www-authenticate"]
        described = httpx2.get(address + "/.well-known/oauth-protected-resource/mcp").json()
        assert described["authorization_servers"] == [ISSUER] and described["resource"] == AUDIENCE
        for wrong in ("a.b.c", "..", "gst_wrong", "x" * 9_000):
            assert post(address, wrong).status_code == 401
        ready = httpx2.get(f"{address}/readyz").json()
        assert (ready["keys"], ready["tokens"]) == ("ok", "ok")


def test_a_token_of_a_provider_has_a_rate(filled: Settings, provider: Provider) -> None:
    guarded = replace(filled, jwt=provider.settings())
    with http_server.thread(serve_http.make_app(guarded, Options(per_minute=2))) as address:
        statuses = [post(address, token(exp=int(time.time()) + number)).status_code for number in (100, 200, 300)]
        assert statuses == [200, 200, 429]  # of the person, not of the single token
        assert post(address, token(sub="bob")).status_code == 200


def test_keys_that_were_never_read_are_a_503(
    filled: Settings, provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_tokens(tmp_path / "tokens", ROWS)
    provider.status = 404
    guarded = replace(filled, tokens_file=tmp_path / "tokens", jwt=provider.settings())
    with http_server.thread(serve_http.make_app(guarded, Options())) as address:
        answer = post(address, token())
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
        assert answer.text.startswith("the keys of the identity provider cannot be read since ")
        assert answer.text.endswith("try again in a moment\n") and provider.url not in answer.text
        assert f"{provider.url}: HTTP 404" in caplog.text
        assert post(address, PAY[0]).status_code == 200  # the file needs no provider
        assert "cannot be read" in httpx2.get(f"{address}/readyz").json()["keys"]


# --- settings ------------------------------------------------------------------------------------------------------

FULL = {
    "GITSTRATA_JWT_ISSUER": ISSUER,
    "GITSTRATA_JWT_AUDIENCE": AUDIENCE,
    "GITSTRATA_JWT_KEYS": "https://id.example.org/k",
}


def test_settings_have_defaults() -> None:
    assert settings.load({}).jwt is None and not settings.load({}).has_tokens
    found = settings.load(FULL)
    assert found.has_tokens and found.jwt == Jwt(
        ISSUER, AUDIENCE, "https://id.example.org/k", "projects", ("RS256", "ES256")
    )
    assert found.jwt is not None
    jwt_tokens.check(found.jwt)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ISSUER": ""}, "GITSTRATA_JWT_ISSUER is not set"),
        ({"AUDIENCE": ""}, "GITSTRATA_JWT_AUDIENCE is not set"),
        ({"KEYS": ""}, "GITSTRATA_JWT_KEYS is not set"),
        ({"ALGORITHMS": "RS256, none"}, "'none' is not one of RS256"),
        ({"ALGORITHMS": "HS256"}, "'HS256' is not one of RS256"),
        ({"KEYS": "http://id.example.org/k"}, "by https, or from this machine"),
        ({"KEYS": "ftp://id.example.org/k"}, "by https, or from this machine"),
        ({"KEYS": "/nowhere/keys.json"}, "/nowhere/keys.json cannot be read: No such file"),
        ({"KEYS": __file__}, "neither a JWK set nor PEM"),
    ],
)
def test_settings_that_cannot_work_are_one_sentence(changes: dict[str, str], message: str) -> None:
    found = settings.load({**FULL, **{f"GITSTRATA_JWT_{name}": value for name, value in changes.items()}})
    with pytest.raises(UsageError, match=message):
        serve_http.serve(found, Options())


def test_a_private_key_is_refused(tmp_path: Path) -> None:
    key = private("RS256").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(key)
    with pytest.raises(UsageError, match="give its public half"):
        jwt_tokens.check(Jwt(ISSUER, AUDIENCE, str(tmp_path / "key.pem"), "projects", ("RS256",)))


def test_doctor_looks_at_the_keys(provider: Provider) -> None:
    (finding,) = doctor.provider(provider.settings())
    assert (finding.state, finding.detail) == ("ok", f"1 key at {provider.url}")
    provider.status = 503
    (finding,) = doctor.provider(provider.settings())
    assert finding.state == "failed" and "HTTP 503" in finding.detail and finding.fix
