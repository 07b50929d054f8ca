"""A second S3 server on loopback: versitygw, which checks signatures and creates exclusively by `link`."""

import tempfile

import botocore.session

from testbed.cache import Say, silent
from testbed.go_programs import built
from testbed.http_server import HttpServer
from testbed.s3_server import KEY, SECRET, environment_of


class VersityServer(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`."""

    what = "the second S3 server"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="versitygw-")
        self._program = built("github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "the second S3 server", say)

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self.endpoint)

    def command(self, port: int) -> list[str]:
        keys = ["--access", KEY, "--secret", SECRET]
        return [self._program, *keys, "--port", f"127.0.0.1:{port}", "posix", self._folder.name]

    def create_bucket(self, name: str) -> None:
        client = botocore.session.Session().create_client(
            "s3", "us-east-1", endpoint_url=self.endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )
        client.create_bucket(Bucket=name)
