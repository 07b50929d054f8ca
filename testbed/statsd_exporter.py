"""Prometheus' own StatsD server on loopback: it shows at ``/metrics`` what has come to its port of UDP."""

import urllib.request
from collections.abc import Mapping

from testbed.cache import Say, silent
from testbed.go_programs import built
from testbed.http_server import HttpServer
from testbed.ports import free_ports


class StatsdExporter(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`. ``port``: of UDP."""

    what = "Prometheus' StatsD server"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        self._program = built("github.com/prometheus/statsd_exporter", "v0.28.0", "the StatsD server of the tests", say)
        self.port = 0

    def command(self, port: int) -> list[str]:
        (self.port,) = free_ports(1)
        listen = [
            f"--statsd.listen-udp=127.0.0.1:{self.port}",
            "--statsd.listen-tcp=",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        return [self._program, *listen]

    def shown(self) -> Mapping[str, float]:
        """By name and tags, as Prometheus gets it."""
        return metrics_at(self.endpoint)


def metrics_at(endpoint: str) -> Mapping[str, float]:
    with urllib.request.urlopen(f"{endpoint}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    rows = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}
