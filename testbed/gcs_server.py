"""Google's storage on loopback: fake-gcs-server, which honours `ifGenerationMatch=0`. It asks for no credentials.

obstore speaks Google's XML API, of which fake-gcs-server knows GET alone. A proxy before it makes PUT and DELETE those
of the JSON API.
"""

import json
import urllib.request
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from testbed.cache import Say, silent
from testbed.go_programs import built
from testbed.http_proxy import HttpProxy
from testbed.http_server import HttpServer


class GcsServer(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`."""

    what = "the Google Cloud Storage server"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        what_for = "the Google Cloud Storage server of the tests"
        self._program = built("github.com/fsouza/fake-gcs-server", "v1.56.1", what_for, say)

    def __enter__(self) -> Self:
        super().__enter__()
        self._proxy = _XmlApi(self.endpoint).__enter__()
        self.endpoint = self._proxy.url
        return self

    def close(self) -> None:
        if hasattr(self, "_proxy"):
            self._proxy.__exit__()
        super().close()

    @property
    def environment(self) -> dict[str, str]:
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": service_account_key(self.endpoint)}

    def command(self, port: int) -> list[str]:
        here = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        return [self._program, *here, "-backend", "memory", "-log-level", "error"]

    def create_bucket(self, name: str) -> None:
        request = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b?project=testbed",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30):
            pass


def service_account_key(endpoint: str) -> str:
    """The key that leads obstore to the server at `endpoint`, unsigned."""
    nobody = {"client_email": "", "private_key": "", "private_key_id": ""}
    return json.dumps({"gcs_base_url": endpoint, "disable_oauth": True, **nobody})


class _XmlApi(HttpProxy):
    def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {name.lower(): value for name, value in headers.items()}
        del headers["host"]  # the server answers to its own alone
        bucket, _, name = urlsplit(path).path.lstrip("/").partition("/")
        name = quote(unquote(name), safe="")
        if method == "DELETE":
            return super().send(method, f"/storage/v1/b/{bucket}/o/{name}", headers, body)
        if method == "PUT":
            generation = headers.pop("x-goog-if-generation-match", None)
            condition = f"&ifGenerationMatch={generation}" if generation else ""
            path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}{condition}"
            status, found, content = super().send("POST", path, headers, body)
            return status, {"ETag": '"etag"', **found}, content
        status, found, content = super().send(method, path, headers, body)
        if b"no bucket named" in content:
            status = 404  # as Google's; the server says 500
        return status, found, content
