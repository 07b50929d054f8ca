"""An S3 server on loopback: moto, which honours `If-None-Match: *` and makes no bucket unasked.

It lives in a folder of its own in the user's cache, because what it needs is not what Airflow needs.
"""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from testbed.cache import Say, silent, whole_folder
from testbed.http_server import HttpServer

MOTO = "moto[server]==5.2.5"
# moto answers each request in a thread of its own. It looks whether an object is there and writes it some lines later,
# so of two writers with `If-None-Match: *` both won now and then. In S3 this is one step, and here, too.
_PROGRAM = """
import sys
import threading
from moto.s3.responses import S3Response
from moto.server import main

plain, one_at_a_time = S3Response.put_object, threading.Lock()

def put_object(response):
    with one_at_a_time:
        return plain(response)

S3Response.put_object = put_object
main(sys.argv[1:])
"""
KEY, SECRET = "testbed", "the-testbeds-secret"  # of the testbed's own server: tests look that they are not shown


class S3Server(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`."""

    what = "the S3 server"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        self._packages = whole_folder("moto-5.2.5", _install, is_whole=lambda f: (f / "moto").is_dir(), say=say)

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self.endpoint)

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-c", _PROGRAM, "-H", "127.0.0.1", "-p", str(port)]

    def create_bucket(self, name: str) -> None:
        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT"), timeout=30):
            pass

    def _environment_of_process(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self._packages)}


def environment_of(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _install(folder: Path) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder), MOTO]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{MOTO} could not be installed:\n{done.stderr[-2000:]}")
