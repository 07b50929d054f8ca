"""Whether a frozen plan's records are still in Kafka, and how many have come since. The engine asks, and the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_kafka_offsets.kafka_values import TopicPartition, topics_made_anew
from airflow_kafka_offsets.plan.plan import Plan, PlannedPartition


@dataclass(frozen=True, slots=True)
class RecordsNow:
    """What there is now of the logs that a plan reads.

    :ivar another_log: a line for each topic that is another log by now; the cluster itself may be another one.
    :ivar log_starts: of the plan's partitions that are there, in the same log; ``ends``: their high watermarks.
    :ivar cuts: the first offset from which on the log is another one than the plan's; absent where it is not.
    :ivar leaderless: partitions of the plan that nobody leads, so that their logs were not asked for.
    :ivar silent: partitions of the plan whose leader has not answered until the deadline, and why.
    :ivar made_anew: of ``another_log`` the lines of topics that exist, by topic.
    """

    another_log: tuple[str, ...] = ()
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    cuts: Mapping[TopicPartition, int] = field(default_factory=dict)
    leaderless: frozenset[TopicPartition] = frozenset()
    silent: Mapping[TopicPartition, str] = field(default_factory=dict)
    made_anew: Mapping[str, str] = field(default_factory=dict)

    @property
    def without_answer(self) -> frozenset[TopicPartition]:
        return self.leaderless | self.silent.keys()

    def waiting(self, plan: Plan) -> int:
        """How many offsets of the plan's partitions have come since: an upper bound of the records."""
        tps = {p.topic_partition: p.end_offset for p in plan.partitions}
        return sum(max(0, end - tps[tp]) for tp, end in self.ends.items())

    def begins(self, plan: Plan) -> dict[TopicPartition, int]:
        """Of each partition the first offset that may be there; of another topic's, the end of the plan's range."""
        return {p.topic_partition: p.end_offset for p in self._of_another_log(plan.partitions)} | dict(self.log_starts)

    def gone(self, partitions: Sequence[PlannedPartition]) -> list[str]:
        """A line for each range of which retention has taken records, or whose topic is another one."""
        return self.deleted(partitions) + [
            f"{p.topic_partition}: the topic of offsets {p.start_offset} to {p.end_offset} is not there any more"
            for p in self._of_another_log(partitions)
        ]

    def _of_another_log(self, partitions: Iterable[PlannedPartition]) -> list[PlannedPartition]:
        same = self.log_starts.keys() | self.without_answer
        return [p for p in partitions if p.topic_partition not in same]

    def missing(self, plan: Plan) -> list[str]:
        """A line for each topic and range of the whole plan that is not there as it was planned."""
        needed = hulls(plan.splits)
        return [*self.another_log, *self.deleted(needed), *self.replaced(needed), *self.unled(needed)]

    def unled(self, partitions: Iterable[PlannedPartition]) -> list[str]:
        """A line for each range that has no leader now, or none that answers."""
        said = dict.fromkeys(self.leaderless, " has no leader") | {tp: f": {why}" for tp, why in self.silent.items()}
        return [f"{p.topic_partition}{said[p.topic_partition]}" for p in partitions if p.topic_partition in said]

    def replaced(self, partitions: Iterable[PlannedPartition]) -> list[str]:
        """A line for each range that the log has other records for, or none any more, than when it was planned."""
        lines = []
        for p in partitions:
            tp = p.topic_partition
            if tp in self.ends and self.ends[tp] < p.end_offset:
                lines.append(f"{tp}: end offset {p.end_offset} is beyond the end of the log, {self.ends[tp]}")
            elif tp in self.cuts and self.cuts[tp] < p.end_offset:
                cut = self.cuts[tp]
                lines.append(f"{tp}: from offset {cut} on, the log is another one (an unclean leader election)")
        return lines

    def deleted(self, partitions: Iterable[PlannedPartition]) -> list[str]:
        """A line for each range of which retention has taken records."""
        return [
            f"{p.topic_partition}: start offset {p.start_offset} is below log start offset {log_start} "
            f"({min(log_start, p.end_offset) - p.start_offset} offsets are gone)"
            for p in partitions
            if (log_start := self.log_starts.get(p.topic_partition, 0)) > p.start_offset
        ]


def hulls(splits: Iterable[Iterable[PlannedPartition]]) -> list[PlannedPartition]:
    """The range of each partition that some splits read, sorted."""
    found: dict[TopicPartition, PlannedPartition] = {}
    for piece in (piece for split in splits for piece in split):
        tp = piece.topic_partition
        first = found.setdefault(tp, piece)
        start, end = min(first.start_offset, piece.start_offset), max(first.end_offset, piece.end_offset)
        found[tp] = first.within(start, end)
    return [found[tp] for tp in sorted(found)]


def other_logs(topics: Iterable[str], was: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    """A line for each of the topics that is another log by now, or is not there.

    :param was: the ids of the plan's topics; :param now: of those that are there.
    """
    anew = topics_made_anew(was, now)
    return [
        f"{topic}: its id is {now[topic]}, the plan was made for {was.get(topic)}"
        if topic in now
        else f"{topic}: it does not exist any more"
        for topic in sorted(topics)
        if topic not in now or topic in anew
    ]
