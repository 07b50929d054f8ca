"""ops/grafana-dashboard.json, made from the table of its panels: ``python -m tests.ops.dashboard`` writes it anew."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FILE = Path(__file__).parents[2] / "ops" / "grafana-dashboard.json"
_BY_PIPELINE, _BY_RUN = "{{pipeline}}", ',by="run"'


@dataclass(frozen=True)
class Panel:
    """
    :ivar expressions: each with the legend of its lines.
    :ivar kind: Grafana's; ``stat`` has one value for the time that is shown.
    """

    title: str
    description: str
    unit: str
    expressions: tuple[tuple[str, str], ...]
    kind: Literal["timeseries", "stat"] = "timeseries"


def _of(name: str, tags: str = "") -> str:
    return f'airflow_kafka_offsets_{name}{{pipeline=~"$pipeline"{tags}}}'


def _newest(time: str, tags: str = "") -> str:
    """A gauge that is a time, also of a task that is over: OpenTelemetry forgets it after some minutes."""
    return f"max by (pipeline) (last_over_time({_of(time, tags)}[$__range]))"


def _at_newest(name: str, time: str, tags: str = "") -> str:
    """A gauge, of the process that has the newest time: with OpenTelemetry each has series of its own."""
    times = f"last_over_time({_of(time, tags)}[1h])"
    newest = f"{times} == on (pipeline) group_left () max by (pipeline) ({times})"
    return f"max by (pipeline) (last_over_time({_of(name, tags)}[1h]) and ({newest}))"


def _total(name: str, by: str = "pipeline") -> str:
    """What was counted in the time that is shown.

    statsd_exporter adds all processes up. With OpenTelemetry the name ends in ``_total``, and each process has a series
    of its own, which is what it has counted.
    """
    added = f"sum by ({by}) (increase({_of(name)}[$__range]))"
    return f"{added} or sum by ({by}) (max_over_time({_of(f'{name}_total')}[$__range]))"


PANELS = (
    Panel(
        "Unread records",
        "What the newest run has left.",
        "short",
        ((_at_newest("lag", "lag_looked_at_seconds", _BY_RUN), _BY_PIPELINE),),
    ),
    Panel(
        "Lag in seconds",
        "No unread record has been in Kafka for longer. It grows between two commits.",
        "s",
        ((f"time() - {_newest('read_until_seconds')}", _BY_PIPELINE),),
    ),
    Panel(
        "Since the last commit",
        "Also a commit task that had nothing to commit counts.",
        "s",
        ((f"time() - {_newest('committed_at_seconds')}", _BY_PIPELINE),),
    ),
    Panel(
        "Until retention deletes unread records",
        "As of the last look that could tell: an estimate, less the time that has passed since.",
        "s",
        (
            (
                _at_newest("retention_margin_seconds", "retention_looked_at_seconds")
                + f" - (time() - {_newest('retention_looked_at_seconds')})",
                _BY_PIPELINE,
            ),
        ),
    ),
    Panel(
        "Unread records that sensors and triggers see",
        "Looks of the last ten minutes alone: a triggerer goes on to send the last one after its trigger has ended.",
        "short",
        (
            (
                'max by (pipeline, group) (airflow_kafka_offsets_lag{by="look"} and '
                'time() - airflow_kafka_offsets_lag_looked_at_seconds{by="look"} < 600)',
                "{{pipeline}}{{group}}",
            ),
        ),
    ),
    Panel(
        "How old the figures of the lag are",
        "Since the last look of a run.",
        "s",
        ((f"time() - {_newest('lag_looked_at_seconds', _BY_RUN)}", _BY_PIPELINE),),
    ),
    Panel(
        "How long the steps take",
        "Resolve: look-up, plan. Commit: verify, commit.",
        "s",
        tuple(
            (f"max by (pipeline) ({_of(f'{step}_seconds')})", f"{_BY_PIPELINE} {step}")
            for step in ("look_up", "plan", "verify", "commit")
        ),
    ),
    Panel(
        "Records",
        "By the commits of the time that is shown.",
        "short",
        tuple(
            (_total(f"records_{what}"), f"{_BY_PIPELINE} {what}")
            for what in ("planned", "rows", "set_aside", "left_out", "lost", "skipped")
        ),
        "stat",
    ),
    Panel(
        "How resolve and commit ended",
        "In the time that is shown: done, or the error's name.",
        "short",
        tuple(
            (_total(tasks, "pipeline, outcome"), f"{_BY_PIPELINE} {tasks} {{{{outcome}}}}")
            for tasks in ("resolves", "commits")
        ),
        "stat",
    ),
    Panel(
        "Attempts for each split",
        "In the time that is shown. 1: no Spark job had to be started again.",
        "short",
        ((f"({_total('attempts')}) / ({_total('splits')})", _BY_PIPELINE),),
        "stat",
    ),
    Panel(
        "Since records were lost, or set aside",
        "Nothing is shown where none were.",
        "s",
        tuple(
            (f"time() - {_newest(f'{what}_at_seconds')}", f"{_BY_PIPELINE} {what}") for what in ("lost", "set_aside")
        ),
    ),
    Panel(
        "Windows: how far they have arrived",
        "Since the time that all partitions have come to, and since the sensor has looked.",
        "s",
        tuple(
            (f"time() - {_newest(f'window_{what}_seconds')}", f"{_BY_PIPELINE} {what}")
            for what in ("arrived_until", "looked_at")
        ),
    ),
    Panel(
        "Windows: partitions that are waited for",
        "They may still get records of before the window's end.",
        "short",
        ((_at_newest("window_partitions_waiting", "window_looked_at_seconds"), _BY_PIPELINE),),
    ),
)


def dashboard() -> dict[str, Any]:
    """As Grafana imports it: it asks for the data source."""
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "title": "Kafka offsets: pipelines",
        "uid": "airflow-kafka-offsets",
        "schemaVersion": 39,
        "timezone": "utc",
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "pipeline",
                    "type": "query",
                    "datasource": source,
                    "query": "label_values(airflow_kafka_offsets_committed_at_seconds, pipeline)",
                    "refresh": 2,
                    "includeAll": True,
                    "allValue": ".*",
                    "multi": True,
                },
            ]
        },
        "panels": [
            {
                "id": number + 1,
                "title": panel.title,
                "description": panel.description,
                "type": panel.kind,
                "datasource": source,
                "gridPos": {"x": number % 2 * 12, "y": number // 2 * 8, "w": 12, "h": 8},
                "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
                "targets": [
                    {
                        "refId": chr(ord("A") + index),
                        "datasource": source,
                        "expr": expr,
                        "legendFormat": legend,
                        "instant": panel.kind == "stat",
                    }
                    for index, (expr, legend) in enumerate(panel.expressions)
                ],
            }
            for number, panel in enumerate(PANELS)
        ],
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
