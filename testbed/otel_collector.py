"""OpenTelemetry's collector on loopback: it takes OTLP over HTTP, and shows at ``/metrics`` what Prometheus reads."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from testbed.cache import Say, silent
from testbed.go_programs import built_of
from testbed.http_server import HttpServer
from testbed.ports import free_ports
from testbed.statsd_exporter import metrics_at


class OtelCollector(HttpServer):
    """See :class:`~testbed.http_server.HttpServer`. ``port``: of OTLP."""

    what = "OpenTelemetry's collector"

    def __init__(self, say: Say = silent) -> None:
        super().__init__()
        self._program = built_of(Path(__file__).with_name("collector"), "the collector of the tests", say)
        self._config = Path(tempfile.mkstemp(prefix="collector-", suffix=".yaml")[1])
        self.port = 0

    def command(self, port: int) -> list[str]:
        (self.port,) = free_ports(1)
        settings = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.port}"}}}},
            "exporters": {"prometheus": {"endpoint": f"127.0.0.1:{port}"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["prometheus"]}},
            },
        }
        self._config.write_text(json.dumps(settings))  # JSON is YAML
        return [self._program, "--config", f"file:{self._config}"]

    def close(self) -> None:
        super().close()
        self._config.unlink(missing_ok=True)

    def shown(self) -> Mapping[str, float]:
        """By name and tags, as Prometheus gets it."""
        return metrics_at(self.endpoint)
