"""Figures of a pipeline, sent through Airflow's own metrics: to StatsD, Datadog or OpenTelemetry, as Airflow is set up.

The pipeline is a tag and no part of a name, and a topic is neither. What must stay true:

- what is not known is not sent, and never 0;
- each batch is counted once, by the task that has put its commit on record. A task that dies just then has counted
  nothing: the counts may be too low, and the log has the exact ones;
- an alarm needs gauges alone. Some ways to Prometheus add counters up and others do not, and a gauge stays where it was
  when its task is over: so what grows old has its time beside it (``…_at_seconds``), since 1970.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from airflow_kafka_offsets.hooks.airflow_versions import Stats
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin
from airflow_kafka_offsets.plan.plan import Draft, Plan

if TYPE_CHECKING:
    from airflow_kafka_offsets.batch.carry_out import CommitOutcome
    from airflow_kafka_offsets.plan.completeness import Completeness
    from airflow_kafka_offsets.plan.consumer_lag import Lag

Gauge = Literal[
    "lag",
    "lag_looked_at_seconds",
    "retention_margin_seconds",
    "retention_looked_at_seconds",
    "read_until_seconds",
    "committed_at_seconds",
    "lost_at_seconds",
    "set_aside_at_seconds",
    "look_up_seconds",
    "plan_seconds",
    "verify_seconds",
    "commit_seconds",
    "window_arrived_until_seconds",
    "window_partitions_waiting",
    "window_looked_at_seconds",
]
Counter = Literal[
    "resolves",
    "commits",
    "splits",
    "attempts",
    "records_planned",
    "records_rows",
    "records_set_aside",
    "records_left_out",
    "records_lost",
    "records_skipped",
]


@contextmanager
def outcome_counted(task: Literal["resolves", "commits"], pipeline_id: str) -> Iterator[None]:
    """Send how a task's work ended: ``done``, or an error's name."""
    outcome = "done"
    try:
        yield
    except Exception as error:  # any: it is named and goes on
        outcome = type(error).__name__
        raise
    finally:
        _counts({task: 1}, {"pipeline": pipeline_id, "outcome": outcome})


@contextmanager
def timed(step: Gauge, pipeline_id: str) -> Iterator[None]:
    """Send how long a step took, also one that failed."""
    began = time.monotonic()
    try:
        yield
    finally:
        _gauges({step: time.monotonic() - began}, {"pipeline": pipeline_id})


def send_nothing_to_read(pipeline_id: str, draft: Draft) -> None:
    """Of a run that found nothing to read: what it leaves, and until when all is read."""
    known = [p.past_end for p in draft.partitions if p.past_end is not None]
    left = sum(known) if len(known) == len(draft.partitions) else None
    _send_left(pipeline_id, LagAndMargin(left), draft.resolved_at_ms)
    _gauges({"read_until_seconds": _s(read_until_ms(draft))}, {"pipeline": pipeline_id})


def send_commit(pipeline_id: str, outcome: CommitOutcome, left: LagAndMargin, at_ms: int) -> None:
    """What is left after a commit, and, if this task made it, what the batch had.

    :param left: of all partitions together.
    :param at_ms: when the commit began.
    """
    tags = {"pipeline": pipeline_id}
    _send_left(pipeline_id, left, at_ms)
    plan, fates, now_s = outcome.plan, outcome.fates, time.time()
    if plan is None or outcome.by_this:
        _gauges({"committed_at_seconds": now_s}, tags)
    if plan is None or not outcome.by_this:
        return
    is_known = outcome.proof is not None or plan.empty  # else nobody has reported
    _gauges(
        {
            "read_until_seconds": _s(read_until_ms(plan)),
            "lost_at_seconds": now_s if plan.lost else None,
            "set_aside_at_seconds": now_s if fates.set_aside else None,
        },
        tags,
    )
    _counts(
        {
            "splits": len(plan.splits_with_rows()),
            "attempts": fates.attempts if is_known else None,
            "records_planned": plan.record_count_upper_bound,
            "records_rows": sum(rows for rows, _, _ in fates.topics.values()) if is_known else None,
            "records_set_aside": fates.set_aside if is_known else None,
            "records_left_out": fates.left_out if is_known else None,
            "records_lost": plan.lost,
            "records_skipped": plan.skipped,
        },
        tags,
    )


def read_until_ms(draft: Draft) -> int | None:
    """All that Kafka had then is read once this is committed. ``None``: the run leaves records, or nobody knows.

    It is the time of the look: the ends of the logs are asked after it. No record's own time is known here, and a plan
    that took another one's place may have the ends of an earlier look.
    """
    is_anew = isinstance(draft, Plan) and draft.reason is not None
    if is_anew or draft.asked.window or any(p.past_end != 0 or p.held_back != 0 for p in draft.partitions):
        return None
    return draft.resolved_at_ms


def send_lag(lag: Lag, pipeline_id: str | None) -> None:
    """What a sensor or trigger has seen, and when: it may be the last that it sends for hours."""
    tags = {"group": lag.group_id} if pipeline_id is None else {"pipeline": pipeline_id}
    _send_lag(None if lag.unknown else lag.records, lag.looked_at_ms, {**tags, "by": "look"})


def send_window(judged: Completeness, pipeline_id: str | None, at_ms: int) -> None:
    """How far a window has arrived that is waited for; nothing where nobody says whose it is."""
    if pipeline_id is not None:
        _gauges(
            {
                "window_arrived_until_seconds": _s(judged.low_watermark_ms),
                "window_partitions_waiting": len(judged.waiting),
                "window_looked_at_seconds": _s(at_ms),
            },
            {"pipeline": pipeline_id},
        )


def _send_left(pipeline_id: str, left: LagAndMargin, at_ms: int) -> None:
    """What a run leaves. A trigger's figures have another tag: its process goes on to send the last one."""
    _send_lag(left.lag, at_ms, {"pipeline": pipeline_id, "by": "run"})
    if left.margin_ms is not None:
        _gauges(
            {"retention_margin_seconds": _s(left.margin_ms), "retention_looked_at_seconds": _s(at_ms)},
            {"pipeline": pipeline_id},
        )


def _send_lag(records: int | None, at_ms: int, tags: Mapping[str, str]) -> None:
    if records is not None:
        _gauges({"lag": records, "lag_looked_at_seconds": _s(at_ms)}, tags)


def _gauges(values: Mapping[Gauge, float | None], tags: Mapping[str, str]) -> None:
    for name, value in values.items():
        if value is not None:
            Stats.gauge(f"kafka_offsets.{name}", value, tags=_allowed(tags))


def _counts(values: Mapping[Counter, int | None], tags: Mapping[str, str]) -> None:
    for name, value in values.items():
        if value is not None:
            Stats.incr(f"kafka_offsets.{name}", value, tags=_allowed(tags))


def _allowed(tags: Mapping[str, str]) -> dict[str, str]:
    """With a tag of other characters, Airflow sends nothing to StatsD, and logs an error for each figure."""
    return {name: re.sub(r"[^A-Za-z0-9_./-]", "_", value) for name, value in tags.items()}


def _s(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
