"""What a resolve does where retention comes near to what it reads, or to what it leaves to a later run.

Nobody looks unless the request has ``min_retention_margin``. Then it is one look-up by time for all partitions: records
that are too old when so much time has passed may be gone by then. Kafka deletes from the front, so that all behind a
record that is young enough stays, too.

By default this is a warning: to read the records now is what saves them, and a run that fails does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from airflow_kafka_offsets.batch.situation import SettingsOf, Situation
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import RetentionTooClose, named
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.plan.lag_and_margin import LogStart, taken_within
from airflow_kafka_offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.times import short_time

_SHOWN = 5


def near_retention(
    request: PlanRequest,
    s: Situation,
    partitions: Iterable[PlannedPartition],
    topics: Collection[str],
    before: Mapping[TopicPartition, LogStart],
) -> list[str]:
    """The warnings of a plan.

    :param topics: of the partitions; the question is the same wherever it is asked.
    :param before: where the logs began when the plan before was made.
    :raises RetentionTooClose: retention comes too near, and the policy says so.
    """
    least_ms, now_ms = request.limits.min_retention_margin_ms, request.run_context.now_ms
    unread = {p.topic_partition: p for p in partitions if p.size or p.past_end}
    if least_ms is None or not unread:
        return []
    settings = s.need(SettingsOf(tuple(topics)))
    logs = {
        tp: OffsetRange(p.log_start_offset, p.end_offset + (p.past_end or 0))
        for tp, p in unread.items()
        if p.log_start_offset is not None
    }
    lines = []
    for tp, taken in taken_within(
        least_ms,
        logs,
        now_ms,
        lambda times: s.cluster(Cluster.offsets_for_times, times, "read_uncommitted"),
        settings,
        before,
    ).items():
        start_offset, end_offset = unread[tp].start_offset, unread[tp].end_offset
        if taken > start_offset:
            read, left = min(taken, end_offset) - start_offset, max(0, taken - end_offset)
            lines.append(f"{tp}: up to {read:,} of the records that it reads, {left:,} of those that it leaves")
    hidden = sorted({tp.topic for tp in unread} - settings.keys())
    warnings = [_not_known(hidden)] * bool(hidden)
    if not lines:
        return warnings
    what = f"Retention may delete unread records within {short_time(least_ms)}"
    if request.policies.answers["retention_margin"] == "fail":
        raise RetentionTooClose(
            [f"{what}. {line}" for line in lines],
            'To read them before: policies={"retention_margin": "warn"} in the conf of this run, or a longer '
            f"retention.ms of the topic. (The limit is {named('min_retention_margin')}.)",
        )
    return [f"{what}: {first_few(lines, _SHOWN, 'partitions', '; ')}.", *warnings]


def _not_known(topics: list[str]) -> str:
    return (
        f"How near retention is to the records of {first_few(topics, _SHOWN)} is not known: this client may not see "
        "the topic's configuration (the right DescribeConfigs)."
    )
