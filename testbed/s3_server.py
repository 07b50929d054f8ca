"""An S3 server on loopback: moto, which honours `If-None-Match: *` and makes no bucket unasked.

It lives in a folder of its own in the user's cache, because what it needs is not what Airflow needs. Whatever it holds
is in its memory, and gone when it stops.
"""

import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from testbed.cache import Say, silent, whole_folder
from testbed.leash import Leashed
from testbed.ports import free_ports
from testbed.topics import wait_for

MOTO = "moto[server]==5.2.5"
KEY, SECRET = "testbed", "the-testbeds-secret"  # of the testbed's own server: tests look that they are not shown
ATTEMPTS = 5


class S3Server:
    """A server that runs in a `with` block.

    :ivar endpoint: its URL.
    """

    def __init__(self, say: Say = silent) -> None:
        self._packages = whole_folder("moto-5.2.5", _install, is_whole=lambda f: (f / "moto").is_dir(), say=say)
        self._log = Path(tempfile.mkstemp(prefix="s3-", suffix=".log")[1])
        self._process: Leashed | None = None
        self.endpoint = ""

    @property
    def environment(self) -> dict[str, str]:
        """What AWS's libraries read: where the server is, and who asks."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def __enter__(self) -> Self:
        for attempt in range(1, ATTEMPTS + 1):
            (port,) = free_ports(1)
            self.endpoint = f"http://127.0.0.1:{port}"
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
            environment = {**os.environ, "PYTHONPATH": str(self._packages)}
            self._process = Leashed.start(command, env=environment, log=self._log)
            try:
                wait_for("the S3 server answers", self._is_up)
                return self
            except RuntimeError:
                self.close()
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        self.close()
        self._log.unlink(missing_ok=True)

    def close(self) -> None:
        if self._process is not None:
            self._process.stop()

    def create_bucket(self, name: str) -> None:
        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT"), timeout=30):
            pass

    def _is_up(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"the S3 server ended; its log:\n{self._log.read_text(errors='replace')[-3000:]}")
        try:
            with urllib.request.urlopen(self.endpoint, timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False


def _install(folder: Path) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder), MOTO]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{MOTO} could not be installed:\n{done.stderr[-2000:]}")
