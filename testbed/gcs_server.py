"""Google's storage on loopback: fake-gcs-server, which honours `ifGenerationMatch=0`. It asks for no credentials."""

import json
import urllib.request

from testbed.cache import Say, silent
from testbed.go_programs import built
from testbed.http_server import HttpServer


class GcsServer(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`."""

    what = "the Google Cloud Storage server"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        what_for = "the Google Cloud Storage server of the tests"
        self._program = built("github.com/fsouza/fake-gcs-server", "v1.56.1", what_for, say)

    @property
    def environment(self) -> dict[str, str]:
        """``NO_GCE_CHECK``: no search for the credentials of a machine of Google's."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint, "NO_GCE_CHECK": "true"}

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
