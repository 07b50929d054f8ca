"""An S3 server over files on this machine, behind a network of 25 ms each way: each request takes 50 ms more."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.measured import say
from testbed.ports import free_ports
from testbed.s3_files import S3Files
from testbed.s3_server import environment_of

BUCKET, DELAY_MS = "lake", 50
STORE = f"s3://{BUCKET}/offsets"


@contextmanager
def slow_s3(lay_log: Callable[[Path], None]) -> Iterator[S3Files]:
    """The server with the log, and this process's way to it.

    :param lay_log: writes the files of the work store ``STORE`` into a folder.
    """
    logging.disable(logging.INFO)  # Airflow's goes to the same place as the table
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slow-s3-"))) / "buckets"
        server = S3Files(folder, say=say)
        server.create_bucket(BUCKET)
        lay_log(folder / BUCKET / "offsets")
        say("the log is there")
        stack.enter_context(server)
        (port,) = free_ports(1)
        upstream = urlsplit(server.endpoint).netloc
        command = [sys.executable, "-m", "benchmarks.long_wire", str(port), upstream, str(DELAY_MS / 2)]
        proxy = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(proxy.kill)
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == "ready\n"
        os.environ.update(environment_of(f"http://127.0.0.1:{port}"))
        yield server
