"""An S3 server over a folder on disk, on loopback: versitygw, which looks at signatures.

A bucket is a folder, and an object is a file in it. So a log can be laid there by hand, also one too large for moto.
"""

from __future__ import annotations

from pathlib import Path

from testbed.cache import Say, silent
from testbed.go_programs import built
from testbed.http_server import HttpServer
from testbed.s3_server import KEY, SECRET, environment_of


class S3Files(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`.

    :ivar folder: whose folders are the buckets.
    :param metadata: whether objects have some. Without, it ignores `If-None-Match`, as some other servers do.
    """

    what = "the S3 server over files"

    def __init__(self, folder: Path, say: Say = silent, *, metadata: bool = False) -> None:
        super().__init__()
        self._program = built("github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "an S3 server over files", say)
        self.folder, self._asked = folder, folder.with_name(f"{folder.name}-asked.log")
        self._options = [] if metadata else ["--nometa"]
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self.endpoint)

    def command(self, port: int) -> list[str]:
        who = ["--access", KEY, "--secret", SECRET, "--region", "us-east-1"]
        here = ["--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "--access-log", str(self._asked)]
        return [self._program, *who, *here, "posix", *self._options, str(self.folder)]

    def create_bucket(self, name: str) -> None:
        (self.folder / name).mkdir(parents=True)

    @property
    def asked(self) -> int:
        """How many requests it has answered."""
        return self._asked.read_bytes().count(b"\n")
