"""An OAuth token server on loopback, over TLS: client_credentials for the clients that it knows, and its public key.

It is a thread of this process. Its tokens are JWTs, signed with RS256, whose `sub` is the client's id.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"


class TokenServer:
    """Runs in a `with` block.

    :param clients: secrets by client id.
    :param certificate: its own, and the key; files.
    :ivar changed: claims of the tokens of a client that are otherwise, by its id.
    :ivar forged: the clients whose tokens another key has signed.
    """

    def __init__(self, clients: Mapping[str, str], certificate: Path, key: Path) -> None:
        self.clients = dict(clients)
        self.changed: dict[str, Mapping[str, Any]] = {}
        self.forged: set[str] = set()
        self._key, self._another_key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in "12")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"https://localhost:{self._server.server_port}"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def keys(self) -> str:
        """Its public key, as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": _number(numbers.n), "e": _number(numbers.e)}
        return json.dumps({"keys": [key]})

    def token(self, client: str) -> str:
        now = int(time.time())
        claims = {"sub": client, "iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "scope": "kafka"}
        claims |= self.changed.get(client, {})
        key = self._another_key if client in self.forged else self._key
        signed = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims))
        return f"{signed}.{_base64(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server: TokenServer, *args: Any) -> None:
        self._tokens = server
        super().__init__(*args)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        client, _, secret = base64.b64decode(given).decode().partition(":") if kind == "Basic" else ("", "", "")
        if not client or self._tokens.clients.get(client) != secret:
            self._answer(401, {"error": "invalid_client", "error_description": "unknown client, or a wrong secret"})
            return
        token = self._tokens.token(client)
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: it is a test's."""


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8))
