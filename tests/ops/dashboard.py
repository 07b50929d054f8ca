"""ops/grafana-dashboard.json, made from the table of its panels: ``python -m tests.ops.dashboard`` writes it anew."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "ops" / "grafana-dashboard.json"
_BY_PIPELINE = "{{pipeline}}"
_BY_RUN = ',by="run"'


@dataclass(frozen=True)
class Panel:
    """:ivar expressions: each with the legend of its lines."""

    title: str
    description: str
    unit: str
    expressions: tuple[tuple[str, str], ...]


def _newest(name: str, tags: str = "") -> str:
    """A gauge, also of a task that is over: OpenTelemetry forgets it after some minutes."""
    return f'max by (pipeline) (last_over_time(airflow_kafka_offsets_{name}{{pipeline=~"$pipeline"{tags}}}[$__range]))'


def _added(name: str, by: str = "pipeline") -> str:
    """A counter: OpenTelemetry's way to Prometheus puts ``_total`` behind its name."""
    selected = f'{{__name__=~"airflow_kafka_offsets_{name}(_total)?",pipeline=~"$pipeline"}}'
    return f"sum by ({by}) (increase({selected}[$__rate_interval]))"


PANELS = (
    Panel(
        "Unread records",
        "What the last run has left.",
        "short",
        ((_newest("lag", _BY_RUN), _BY_PIPELINE),),
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
                f"{_newest('retention_margin_seconds')} - (time() - {_newest('retention_looked_at_seconds')})",
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
                'max by (pipeline, group) (airflow_kafka_offsets_lag{by="look"}) and max by (pipeline, group) '
                '(time() - airflow_kafka_offsets_lag_looked_at_seconds{by="look"}) < 600',
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
            (_newest(f"{step}_seconds"), f"{_BY_PIPELINE} {step}") for step in ("look_up", "plan", "verify", "commit")
        ),
    ),
    Panel(
        "Records",
        "By the commits. OpenTelemetry: only if Airflow sends what was added (docs/monitor.md).",
        "short",
        tuple(
            (_added(f"records_{what}"), f"{_BY_PIPELINE} {what}")
            for what in ("planned", "rows", "set_aside", "left_out", "lost", "skipped")
        ),
    ),
    Panel(
        "How resolve and commit ended",
        "done, or the error's name. OpenTelemetry: only if Airflow sends what was added (docs/monitor.md).",
        "short",
        tuple(
            (_added(tasks, "pipeline, outcome"), f"{_BY_PIPELINE} {tasks} {{{{outcome}}}}")
            for tasks in ("resolves", "commits")
        ),
    ),
    Panel(
        "Attempts for each split",
        "1: no Spark job had to be started again. OpenTelemetry: only if Airflow sends what was added.",
        "short",
        ((f"{_added('attempts')} / {_added('splits')}", _BY_PIPELINE),),
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
        ((_newest("window_partitions_waiting"), _BY_PIPELINE),),
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
                "type": "timeseries",
                "datasource": source,
                "gridPos": {"x": number % 2 * 12, "y": number // 2 * 8, "w": 12, "h": 8},
                "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + index), "datasource": source, "expr": expr, "legendFormat": legend}
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
