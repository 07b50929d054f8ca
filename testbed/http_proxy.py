"""A proxy before an HTTP server on loopback: it counts requests, and does to some what networks and busy servers do."""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

_PER_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "expect"}


@dataclass(frozen=True)
class Request:
    """:ivar sent: bytes of its body. :ivar received: bytes of the answer's."""

    method: str
    path: str
    sent: int
    received: int


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # a store's client opens so many connections at once


@dataclass
class HttpProxy:
    """A server on a port of its own, in a ``with`` block.

    :ivar faults: what is done to the next requests for which ``meant`` is true, one each: a status; ``cut before`` (the
        request never arrives), ``cut after`` (it arrives, and its answer is lost), ``hang`` (nothing comes back),
        ``half`` (of the answer comes), ``reset`` (the connection, before the body is read).
    :ivar done: the faults that have been played.
    :ivar delay_s: what each request takes longer.
    :ivar authorization: the header that a request must have; by default none has to. A request without it gets 401.
    :ivar certificate: a file with a certificate and its key: the proxy speaks TLS.
    :ivar clients: the authority that has to have signed a client's certificate; with ``certificate``.
    :ivar seen: each request that was forwarded.
    """

    target: str
    faults: list[int | str] = field(default_factory=list)
    meant: Callable[[str, str], bool] = lambda method, path: True
    done: list[int | str] = field(default_factory=list)
    delay_s: float = 0.0
    authorization: str | None = None
    certificate: Path | None = None
    clients: Path | None = None
    seen: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        proxy, self._over = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                proxy._handle(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

            def log_message(self, *_: Any) -> None: ...

        self._server = _Server(("127.0.0.1", 0), Handler)
        if self.certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.clients)
            context.load_cert_chain(self.certificate)
            context.verify_mode = ssl.CERT_REQUIRED if self.clients else ssl.CERT_NONE
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def disarm(self) -> None:
        """From now on all is as it should be."""
        self.faults, self.done, self.delay_s = [], [], 0.0

    @property
    def url(self) -> str:
        schema = "http" if self.certificate is None else "https"
        return f"{schema}://127.0.0.1:{self._server.server_address[1]}"

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        fault = self.faults.pop(0) if self.faults and self.meant(request.command, request.path) else None
        if fault is not None:
            self.done.append(fault)
        if fault == "reset":
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            _cut(request)
            return
        body = _body(request)
        if self.authorization is not None and request.headers.get("Authorization") != self.authorization:
            _answer(request, 401, {}, b'{"error_code": 401, "message": "Unauthorized"}')
            return
        if fault == "hang":
            self._over.wait(60)
        elif isinstance(fault, int):
            _answer(request, fault, {}, _ERROR.get(fault, b""))
            return
        if fault in ("cut before", "hang"):
            _cut(request)
            return
        if self.delay_s:
            self._over.wait(self.delay_s)
        status, headers, content = self._forward(request, body)
        self.seen.append(Request(request.command, request.path, len(body), len(content)))
        if fault == "cut after":
            _cut(request)
            return
        if fault == "half":
            content, headers = content[: len(content) // 2], {}
        _answer(request, status, headers, content)

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _PER_HOP}
        status, found, content = self.send(request.command, request.path, headers, body)
        found = {k: v for k, v in found.items() if k.lower() not in _PER_HOP - {"content-length"}}
        if request.command != "HEAD":
            found["Content-Length"] = str(len(content))
        return status, found, content

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Ask the server; returns status, headers and body."""
        connection = http.client.HTTPConnection(urlsplit(self.target).netloc, timeout=30)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content


_CODES = {409: "ConditionalRequestConflict", 429: "SlowDown", 500: "InternalError", 503: "SlowDown"}
_ERROR = {
    status: f"<Error><Code>{code}</Code><Message>played</Message></Error>".encode() for status, code in _CODES.items()
}


def _body(request: BaseHTTPRequestHandler) -> bytes:
    length = request.headers.get("Content-Length")
    if length is not None:
        return request.rfile.read(int(length))
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return b""
    body = b""
    while size := int(request.rfile.readline().split(b";")[0], 16):
        body += request.rfile.read(size)
        request.rfile.readline()
    while request.rfile.readline().strip():
        pass
    return body


def _answer(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes) -> None:
    request.send_response_only(status)
    for name, value in headers.items():
        request.send_header(name, value)
    if "Content-Length" not in headers:
        request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)


def _cut(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True
    request.connection.close()
