"""A small OpenID provider on loopback: real keys, real tokens, one person who always agrees; it misbehaves if told."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwk, jwt

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = "canary-pages"
SECRET = "a secret/with+signs"  # noqa: S105  # of nothing


@dataclass(slots=True)
class IdentityProvider:
    """The provider. ``asked`` are the token requests so far, ``given`` the ID tokens."""

    issuer: str = ""
    key: jwk.RSAKey = field(default_factory=lambda: jwk.RSAKey.generate_key(2048, {"kid": "one"}, private=True))
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims in place of the usual ones; None: without the claim."""
    unsigned: bool = False
    signing_key: jwk.RSAKey | None = None
    answer: tuple[int, dict[str, Any]] | None = None
    description: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[tuple[dict[str, str], str]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        """Return its description (OpenID Connect Discovery 1.0)."""
        own = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        ends = {f"{name}_endpoint": f"{self.issuer}/{name}" for name in ("authorization", "token")}
        return own | ends | self.description

    def agree(self, url: str) -> str:
        """Return where it sends the browser that came to ``url`` and signed in."""
        asked = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
        code = secrets.token_hex(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return status and body of a token request: a code is good once, and with its verifier."""
        self.asked.append((form, authorization))
        if self.answer is not None:
            return self.answer
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        if asked is None or challenge.rstrip("=") != asked["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": f"no {form.get('code')}"}
        self.given.append(self.id_token(asked["nonce"]))
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.given[-1]}

    def id_token(self, nonce: str) -> str:
        """Return an ID token."""
        usual = {
            "iss": self.issuer,
            "aud": CLIENT,
            "exp": int(time.time()) + 300,
            "iat": int(time.time()),
            "sub": "ann",
            "scope": "canary:operate",
            "nonce": nonce,
        }
        claims = {name: value for name, value in (usual | self.claims).items() if value is not None}
        if self.unsigned:
            parts = ({"alg": "none", "typ": "JWT"}, claims)
            return (
                ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + "."
            )
        return jwt.encode({"alg": "RS256", "kid": self.key.kid or ""}, claims, self.signing_key or self.key)


@contextmanager
def serving() -> Iterator[IdentityProvider]:
    """Serve a provider."""
    provider = IdentityProvider()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, provider)) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield provider
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, provider: IdentityProvider, *more: Any) -> None:
        self._provider = provider
        super().__init__(*more)

    def do_GET(self) -> None:
        provider = self._provider
        keys = {"keys": [provider.key.as_dict(private=False)]}
        self._send(200, keys if self.path == "/keys" else provider.described())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[-1] for name, values in parse_qs(body).items()}
        self._send(*self._provider.exchange(form, self.headers.get("Authorization", "")))

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
