"""A service of the tests that takes Spark jobs over HTTP, as a cloud's does, and really starts `spark-submit` for each.

What is particular about one service, its paths and the words of its states, is a subclass' `answer`.
"""

import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from testbed.leash import Leashed


@dataclass(frozen=True)
class Request:
    """:ivar body: what was sent as JSON; `{}` where nothing was."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass
class Job:
    """:ivar processes: usually one; more, where the service starts it more than once."""

    id: str
    application: str
    arguments: list[str]
    processes: list[Leashed] = field(default_factory=list)

    def state(self, running: str, succeeded: str, failed: str) -> str:
        """The service's word for how far it is: that of the best of its processes."""
        codes = [process.returncode for process in self.processes]
        if None in codes:
            return running
        return succeeded if 0 in codes else failed


class SparkService:
    """A service that runs in a `with` block.

    :param environment: of the processes that it starts.
    :param times: how often it starts each job, all at once.
    :ivar jobs: those that were submitted, oldest first.
    """

    status_of: ClassVar[Mapping[str, int]] = {}
    """The status of an answer to a method, where it is not 200."""

    def __init__(self, environment: Mapping[str, str], times: int = 1) -> None:
        self._environment, self._times = {**os.environ, **environment}, times
        self.jobs: list[Job] = []
        self.requests: list[Request] = []
        self.log = Path(tempfile.mkstemp(prefix="spark-service-", suffix=".log")[1])
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.host, self.port = "127.0.0.1", self._server.server_port
        self.endpoint = f"http://{self.host}:{self.port}"

    def answer(self, request: Request) -> Any:
        """What the service says: JSON, or text. `None` where there is no such thing.

        :raises KeyError: an API that the service does not have.
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for job in self.jobs:
            for process in job.processes:
                process.kill()
        self.log.unlink(missing_ok=True)

    def submit(self, application: str, arguments: Sequence[str]) -> Job:
        """Start it, with these very arguments."""
        job = Job(f"job-{len(self.jobs) + 1}", application, list(arguments))
        self.jobs.append(job)
        command = ["spark-submit", "--master", "local[2]", application, *arguments]
        job.processes += [Leashed.start(command, env=self._environment, log=self.log) for _ in range(self._times)]
        return job

    def job(self, id_: str) -> Job:
        """:raises KeyError: nobody has submitted it."""
        return {job.id: job for job in self.jobs}[id_]


def _handler(service: SparkService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(length)
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query))
            request = Request(self.command, url.path, query, dict(self.headers), json.loads(sent) if sent else {})
            service.requests.append(request)
            try:
                answer = service.answer(request)
            except KeyError as error:
                answer = None
                print(f"{request.method} {request.path}: {error}")
            is_text = isinstance(answer, str)
            body = answer if is_text else json.dumps(answer if answer is not None else {"code": 404, "message": "none"})
            data = body.encode()
            self.send_response(404 if answer is None else service.status_of.get(request.method, 200))
            self.send_header("Content-Type", "text/plain" if is_text else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _do

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: what it was asked is in `requests`."""

    return Handler
