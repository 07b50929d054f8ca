"""Asks Kafka what the estimate of a backlog needs: where retention will be when later runs come.

Nothing is asked where no cap was hit. What is not known is worth a word, and never worth a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_kafka_offsets.batch.situation import BacklogOf
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition, TopicSettings
from airflow_kafka_offsets.plan.backlog import Backlog, Left, expiring, more_runs
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.request.times import in_units

_SHOWN = 3


def estimate_backlog(asked: BacklogOf, cluster: OffsetReader) -> Backlog:
    request, carried, settings, pace_ms = asked.request, asked.carried, asked.settings, asked.pace_ms
    limits = request.limits
    runs = more_runs(carried, limits.max_records, limits.max_records_per_partition)
    topics = sorted({tp.topic for tp in carried})
    retention = {name: of.retention_ms for name in topics if (of := settings.get(name)) and of.retention_ms is not None}
    unknown = _what_is_not_known(topics, settings, pace_ms if retention else 0)
    if unknown is not None or pace_ms is None or not retention:
        why = unknown or "retention.ms is without a limit"
        return Backlog(sum(carried.values()), runs, 0 if unknown is None else None, why)
    timed = {tp: retention[tp.topic] for tp in carried if tp.topic in retention}

    def first_young(run: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """:param run: which run comes, of each partition: the next one is 1."""
        times = {tp: max(0, request.run_context.now_ms + number * pace_ms - timed[tp]) for tp, number in run.items()}
        return cluster.offsets_for_times(times, "read_uncommitted")

    try:
        newest = cluster.newest_timestamps(list(timed), "read_uncommitted")
        at_next = first_young(dict.fromkeys(timed, 1))
        last = {}
        for tp, kept_ms in timed.items():
            through_ms = newest.get(tp, 0) + kept_ms - request.run_context.now_ms
            last[tp] = min(runs, max(1, through_ms // max(1, pace_ms) + 1))
        at_last = first_young(last)
    except ClusterUnavailable as error:
        return Backlog(sum(carried.values()), runs, None, error.message)
    left = [Left(asked.ends[tp], carried[tp], at_next.get(tp), last[tp], at_last.get(tp)) for tp in timed]
    why = f"by retention.ms, with {in_units(pace_ms)} between two runs"
    return Backlog(sum(carried.values()), runs, expiring(left, runs), why)


def _what_is_not_known(topics: Sequence[str], settings: Mapping[str, TopicSettings], pace_ms: int | None) -> str | None:
    hidden = [name for name in topics if name not in settings]
    if hidden:
        return f"this client may not see the configuration of {first_few(hidden, _SHOWN)} (the right DescribeConfigs)"
    by_size = [name for name in topics if settings[name].retention_bytes is not None]
    if by_size:
        return f"{first_few(by_size, _SHOWN)} has retention.bytes, which deletes by size"
    return "how far apart the runs are is not known" if pace_ms is None else None
