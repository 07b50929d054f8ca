"""Figures of a pipeline, sent through Airflow's own metrics: to StatsD, Datadog or OpenTelemetry, as Airflow is set up.

The pipeline is a tag and no part of a name, and a topic is neither. What must stay true:

- what is not known is not sent, and never 0;
- each batch is counted once, by the task that has put its commit on record. A task that dies just then has counted
  nothing: the counts may be too low, and the log has the exact ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_kafka_offsets.batch.carry_out import CommitOutcome
from airflow_kafka_offsets.hooks.airflow_versions import Stats
from airflow_kafka_offsets.plan.consumer_lag import Lag
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin


@contextmanager
def measured(task: str, pipeline_id: str) -> Iterator[None]:
    """Send how long a task's work took, and how it ended: ``done``, or an error's name.

    :param task: ``resolve`` or ``commit``.
    """
    began, outcome = time.monotonic(), "done"
    try:
        yield
    except Exception as error:  # any: it is named and goes on
        outcome = type(error).__name__
        raise
    finally:
        Stats.incr(f"kafka_offsets.{task}s", tags={"pipeline": pipeline_id, "outcome": outcome})
        _gauges({f"{task}_seconds": time.monotonic() - began}, {"pipeline": pipeline_id})


def send_commit(pipeline_id: str, outcome: CommitOutcome, left: LagAndMargin) -> None:
    """What is left after a commit, and, if this task made it, what the batch had.

    :param left: of all partitions together.
    """
    tags = {"pipeline": pipeline_id}
    _gauges({"lag": left.lag, "retention_margin_seconds": _s(left.margin_ms)}, tags)
    plan, fates = outcome.plan, outcome.fates
    if plan is not None and outcome.by_this:
        _gauges({"committed_at_seconds": time.time()}, tags)
        counts = {
            "planned": plan.record_count_upper_bound,
            "rows": sum(rows for rows, _, _ in fates.topics.values()),
            "set_aside": fates.set_aside,
            "left_out": fates.left_out,
            "lost": plan.lost,
            "skipped": plan.skipped,
        }
        for name, count in counts.items():
            Stats.incr(f"kafka_offsets.records_{name}", count, tags=tags)


def send_lag(lag: Lag, pipeline_id: str | None) -> None:
    """What a sensor or trigger has seen, and when: it may be the last that it sends for hours."""
    tags = {"group": lag.group_id} if pipeline_id is None else {"pipeline": pipeline_id}
    _gauges({"lag": None if lag.unknown else lag.records, "lag_looked_at_seconds": _s(lag.looked_at_ms)}, tags)


def _gauges(values: Mapping[str, float | None], tags: Mapping[str, str]) -> None:
    for name, value in values.items():
        if value is not None:
            Stats.gauge(f"kafka_offsets.{name}", value, tags=dict(tags))


def _s(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
