"""Google Cloud Storage on loopback: fake-gcs-server, which honours `ifGenerationMatch=0`. It asks for no credentials.

It is built by Go, which takes some minutes the first time, into a folder of the user's cache.
"""

import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.http_server import HttpServer, needed_program

VERSION = "v1.56.1"
_PROGRAM = "fake-gcs-server"


class GcsServer(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`."""

    what = "the Google Cloud Storage server"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        name = f"{_PROGRAM}-{VERSION}"
        self._folder = whole_folder(name, _install, is_whole=lambda f: (f / _PROGRAM).is_file(), say=say)

    @property
    def environment(self) -> dict[str, str]:
        """``NO_GCE_CHECK``: no search for the credentials of a machine of Google's."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint, "NO_GCE_CHECK": "true"}

    def command(self, port: int) -> list[str]:
        here = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        return [str(self._folder / _PROGRAM), *here, "-backend", "memory", "-log-level", "error"]

    def create_bucket(self, name: str) -> None:
        request = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b?project=testbed",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30):
            pass


def _install(folder: Path) -> None:
    go = needed_program("go", "the Google Cloud Storage server of the tests", "Go, from https://go.dev/dl/")
    source = f"github.com/fsouza/{_PROGRAM}@{VERSION}"
    sources = folder / "sources"  # not the user's own GOPATH
    ours = {
        "GOPATH": str(sources),
        "GOBIN": str(folder),
        "GOCACHE": str(sources / "cache"),
        "GOFLAGS": "-modcacherw",  # or it could not be removed
    }
    done = subprocess.run([go, "install", source], env={**os.environ, **ours}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{source} could not be built:\n{done.stderr[-2000:]}")
    shutil.rmtree(sources)
