"""A cluster in memory, behind the same protocol as the real one, for laws, tables and the model.

It keeps to what the rules depend on, and ``tests/contract`` runs one suite on it and on a real broker:

- the end of a transaction is a control record: it takes an offset, is nobody's record, and carries the cluster's clock
  (KIP-98). While a transaction is open, its first offset is the partition's last stable offset;
- a timestamp look-up gives the first *offset* whose timestamp is at or after the time. Control records match, as on a
  broker (``UnifiedLog.fetchOffsetByTimestamp`` does not look into batches' kinds); records out of order stay so;
- to delete a topic drops all groups' offsets of it (``GroupCoordinator.onPartitionsDeleted``), and a topic that is
  created again has another id;
- compaction leaves gaps: neither end of the log moves.

Time is a number that the test sets. Nothing waits, so what a real broker answers late is here an error at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive, NothingToDiscover
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    EndOffset,
    GroupDescription,
    IsolationLevel,
    OffsetRange,
    PartitionSet,
    Subscription,
    TopicDescription,
    TopicList,
    TopicPartition,
    TopicPattern,
    by_topic,
)

METADATA_LIMIT = 4095  # UTF-16 units: Kafka's default of 4096, less the NUL that confluent-kafka adds


@dataclass(frozen=True, slots=True)
class Entry:
    """A record or, with ``control``, the marker of a transaction's end."""

    offset: int
    timestamp_ms: int
    control: bool = False
    transaction: MemoryTransaction | None = None


@dataclass(slots=True)
class Log:
    """One partition. ``entries`` are what is still there; ``high_watermark`` is the next offset."""

    entries: list[Entry] = field(default_factory=list)
    log_start_offset: int = 0
    high_watermark: int = 0
    leader: int | None = 1
    leader_epoch: int = 0
    epochs: dict[int, int] = field(default_factory=lambda: {0: 0})  # where each begins
    open: dict[int, int] = field(default_factory=dict)  # id of an open transaction → its first offset
    newest: Entry | None = None  # the first with the highest timestamp; kept when deleted, as in a broker's segment

    def end(self, isolation_level: IsolationLevel) -> int:
        if isolation_level == "read_uncommitted" or not self.open:
            return self.high_watermark
        return max(self.log_start_offset, min(self.open.values()))

    def append(self, timestamp_ms: int, control: bool = False, transaction: MemoryTransaction | None = None) -> int:
        offset, self.high_watermark = self.high_watermark, self.high_watermark + 1
        entry = Entry(offset, timestamp_ms, control, transaction)
        self.entries.append(entry)
        if self.newest is None or timestamp_ms > self.newest.timestamp_ms:
            self.newest = entry
        return offset


@dataclass(slots=True)
class Topic:
    topic_id: str
    logs: dict[int, Log]
    log_append_time: bool = False


@dataclass(eq=False, slots=True)
class MemoryTransaction:
    """An open transaction; ``commit`` and ``abort`` write its marker to each partition that it wrote to."""

    cluster: InMemoryCluster
    written: list[TopicPartition] = field(default_factory=list)
    aborted: bool | None = None
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)

    def send_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit to the group as part of the transaction: pending until that ends."""
        self.offsets.setdefault(group_id, {}).update({tp: CommittedOffset(offset) for tp, offset in offsets.items()})
        self.cluster.pending.append(self)

    def produce(self, tp: TopicPartition, timestamps_ms: Sequence[int]) -> list[int]:
        assert self.aborted is None, "this transaction has ended"
        log = self.cluster._log(tp)
        if tp not in self.written:
            self.written.append(tp)
            log.open[id(self)] = log.high_watermark
        return self.cluster._append(tp, timestamps_ms, self)

    def commit(self) -> None:
        self._end(aborted=False)

    def abort(self) -> None:
        self._end(aborted=True)

    def _end(self, *, aborted: bool) -> None:
        assert self.aborted is None, "this transaction has ended"
        self.aborted = aborted
        for tp in self.written:
            log = self.cluster._log(tp)
            log.append(self.cluster.now_ms, control=True)
            del log.open[id(self)]
        self.cluster.pending = [other for other in self.cluster.pending if other is not self]
        for group_id, offsets in self.offsets.items():
            if not aborted:
                self.cluster.groups.setdefault(group_id, {}).update(offsets)


HANGS = "no answer within 1 s; its leader is broker 1"


class InMemoryCluster:
    """``Cluster``, and the hands of ``tests.cluster.real.Hands``.

    :ivar now_ms: the cluster's clock: of control records, and of records where the topic has LogAppendTime.
    :ivar hanging: partitions whose leader is known and does not answer.
    """

    def __init__(self, cluster_id: str = "memory", now_ms: int = 1_800_000_000_000) -> None:
        self.cluster_id = cluster_id
        self.now_ms = now_ms
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.members: dict[str, list[str]] = {}
        self.pending: list[MemoryTransaction] = []
        self.hanging: set[TopicPartition] = set()

    # ── what others do to it ──────────────────────────────────────────────────────────────────────────────────────────

    def create_topic(self, name: str, partitions: int = 1, *, log_append_time: bool = False) -> None:
        assert name not in self.topics, f"topic {name} exists"
        logs = {number: Log() for number in range(partitions)}
        self.topics[name] = Topic(uuid.uuid4().hex, logs, log_append_time)

    def add_partitions(self, name: str, count: int) -> None:
        """``count`` more."""
        logs = self.topics[name].logs
        logs.update({number: Log() for number in range(len(logs), len(logs) + count)})

    def delete_topic(self, name: str) -> None:
        del self.topics[name]
        for offsets in self.groups.values():
            for tp in [tp for tp in offsets if tp.topic == name]:
                del offsets[tp]

    def recreate_topic(self, name: str, partitions: int | None = None) -> None:
        old = self.topics[name]
        self.delete_topic(name)
        self.create_topic(name, partitions or len(old.logs), log_append_time=old.log_append_time)

    def produce(self, tp: TopicPartition, timestamps_ms: Sequence[int]) -> list[int]:
        """A record for each timestamp; returns their offsets."""
        return self._append(tp, timestamps_ms, None)

    def begin_transaction(self) -> MemoryTransaction:
        return MemoryTransaction(self)

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        """Retention, or DeleteRecords: the log starts at ``before``."""
        log = self._log(tp)
        assert log.log_start_offset <= before <= log.high_watermark, f"{before} is outside of the log of {tp}"
        log.log_start_offset = before
        log.entries = [entry for entry in log.entries if entry.offset >= before]

    def compact(self, tp: TopicPartition, timestamps_ms: Sequence[int], superseded: Mapping[int, int]) -> None:
        """Records of which those at ``superseded`` have the keys of later ones; the log's ends stay where they are."""
        self.produce(tp, timestamps_ms)
        log = self._log(tp)
        log.entries = [entry for entry in log.entries if entry.offset not in superseded]

    def truncate(self, tp: TopicPartition, end_offset: int) -> None:
        """An unclean election: the new leader lacks what lies at and after ``end_offset``."""
        log = self._log(tp)
        log.entries = [entry for entry in log.entries if entry.offset < end_offset]
        log.newest = max(log.entries, key=lambda entry: entry.timestamp_ms, default=None)
        log.open = {key: first for key, first in log.open.items() if first < end_offset}
        log.high_watermark = end_offset
        log.epochs = {epoch: first for epoch, first in log.epochs.items() if first <= end_offset}
        log.log_start_offset = min(log.log_start_offset, end_offset)
        self.elect(tp)

    def elect(self, tp: TopicPartition, leader: int | None = 1) -> None:
        """Another leader and its epoch; ``None``: nobody leads, and every question about the partition fails."""
        log = self._log(tp)
        log.leader = leader
        if leader is not None:
            log.leader_epoch += 1
            log.epochs[log.leader_epoch] = log.high_watermark

    def commit_as_somebody_else(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """As a consumer of the group commits: nothing is compared, and members do not matter."""
        self.groups.setdefault(group_id, {}).update(offsets)

    def expire(self, group_id: str, partitions: Collection[TopicPartition] | None = None) -> None:
        """Forget the group's offsets, or those of ``partitions``: without members they expire one by one (KIP-211)."""
        offsets = self.groups.get(group_id, {})
        for tp in list(offsets) if partitions is None else partitions:
            offsets.pop(tp, None)

    @contextmanager
    def live_member(self, group_id: str, topic: str, client_id: str = "consumer-1") -> Iterator[None]:
        """A consumer of ``topic`` is in the group."""
        assert topic in self.topics
        self.groups.setdefault(group_id, {})
        members = self.members.setdefault(group_id, [])
        members.append(f"client-id {client_id} at /127.0.0.1")
        try:
            yield
        finally:
            members.pop()

    def committed_records(self, tp: TopicPartition) -> list[int]:
        """The offsets that a ``read_committed`` reader is given, up to the last stable offset."""
        log = self._log(tp)
        end = log.end("read_committed")
        return [
            entry.offset
            for entry in log.entries
            if entry.offset < end
            and not entry.control
            and (entry.transaction is None or entry.transaction.aborted is False)
        ]

    # ── Cluster ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> InMemoryCluster:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to close."""

    def describe(self, subscription: Subscription) -> ClusterDescription:
        topics = self._matching(subscription)
        missing: list[str] = []
        match subscription:
            case TopicList(names, True):
                missing = [f"Topic {name} does not exist" for name in sorted(set(names) - set(topics))]
            case PartitionSet(partitions):
                unknown = [tp for tp in partitions if tp.topic not in topics]
                missing = [f"Topic {name} does not exist" for name in by_topic(unknown)] or [
                    f"{tp} does not exist" for tp in sorted(partitions) if tp.partition not in topics[tp.topic].leaders
                ]
            case TopicPattern(pattern) if not topics:
                missing = [f"No topic matches {pattern!r}"]
        if missing:
            raise NothingToDiscover(missing, "Create it, or correct the name.")
        return ClusterDescription(self.cluster_id, topics)

    def log_start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: log.log_start_offset for tp, log in self._led(partitions).items()}

    def end_offsets(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, EndOffset]:
        return {tp: EndOffset(log.end(isolation_level), log.leader_epoch) for tp, log in self._led(partitions).items()}

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {
            tp: next((first for epoch, first in log.epochs.items() if epoch > epochs[tp]), log.high_watermark)
            for tp, log in self._led(epochs).items()
        }

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for tp, log in self._led(times_ms).items():
            first = next((entry.offset for entry in log.entries if entry.timestamp_ms >= times_ms[tp]), None)
            if first is not None and first < log.end(isolation_level):  # beyond it the broker says "none" (B12)
                found[tp] = first
        return found

    def first_times(
        self, starts: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for tp, log in self._led(starts).items():
            seen = (e for e in log.entries if starts[tp] <= e.offset < log.end(isolation_level) and not e.control)
            if isolation_level == "read_committed":
                seen = (e for e in seen if e.transaction is None or not e.transaction.aborted)
            if (first := next(seen, None)) is not None:
                found[tp] = first.timestamp_ms
        return found

    def record_counts(
        self, ranges: Collection[tuple[TopicPartition, OffsetRange]]
    ) -> dict[tuple[TopicPartition, OffsetRange], int]:
        self._led([tp for tp, _ in ranges])
        return {
            (tp, r): sum(r.start_offset <= offset < r.end_offset for offset in self.committed_records(tp))
            for tp, r in ranges
        }

    def newest_timestamps(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        return {
            tp: log.newest.timestamp_ms
            for tp, log in self._led(partitions).items()
            if log.newest is not None and log.newest.offset < log.end(isolation_level)
        }

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        offsets = self.groups.get(group_id, {})
        pending = {tp for transaction in self.pending for tp in transaction.offsets.get(group_id, {})}
        unstable = {tp: "UNSTABLE_OFFSET_COMMIT" for tp in sorted(set(partitions)) if tp in pending}
        if unstable:
            raise self._unavailable("read committed offsets", unstable)
        return {tp: offsets[tp] for tp in sorted(set(partitions)) if tp in offsets}

    def describe_group(self, group_id: str) -> GroupDescription:
        members = tuple(self.members.get(group_id, ()))
        if members:
            return GroupDescription("Stable", members)
        return GroupDescription("Empty" if self.groups.get(group_id) else "Dead")

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Refused under members, and not atomic, as on a broker."""
        if self.members.get(group_id):
            raise GroupActive(group_id, "Stable", tuple(self.members[group_id]))
        refused = self._refused(offsets)
        self.groups.setdefault(group_id, {}).update({tp: c for tp, c in offsets.items() if tp not in refused})
        if refused:
            raise self._unavailable("commit", refused)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _append(
        self, tp: TopicPartition, timestamps_ms: Sequence[int], transaction: MemoryTransaction | None
    ) -> list[int]:
        log, appended = self._log(tp), self.topics[tp.topic].log_append_time
        return [log.append(self.now_ms if appended else ts, transaction=transaction) for ts in timestamps_ms]

    def _log(self, tp: TopicPartition) -> Log:
        return self.topics[tp.topic].logs[tp.partition]

    def _exists(self, tp: TopicPartition) -> bool:
        return tp.topic in self.topics and tp.partition in self.topics[tp.topic].logs

    def _refused(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, str]:
        return {tp: reason for tp in sorted(offsets) if (reason := self._refusal(tp, offsets[tp]))}

    def _refusal(self, tp: TopicPartition, commit: CommittedOffset) -> str | None:
        if not self._exists(tp):
            return "UNKNOWN_TOPIC_OR_PARTITION"
        return "OFFSET_METADATA_TOO_LARGE" if len(commit.metadata.encode("utf-16-le")) // 2 > METADATA_LIMIT else None

    def _led(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Log]:
        wanted = sorted(set(partitions))
        failed = {tp: "UNKNOWN_TOPIC_OR_PARTITION" for tp in wanted if not self._exists(tp)}
        failed |= {tp: "it has no leader" for tp in wanted if self._exists(tp) and self._log(tp).leader is None}
        silent = {tp: HANGS for tp in wanted if tp in self.hanging}
        if failed or silent:
            raise self._unavailable("look up offsets", failed | silent, silent)
        return {tp: self._log(tp) for tp in wanted}

    def _unavailable(
        self, what: str, reasons: Mapping[TopicPartition, str], silent: Mapping[TopicPartition, str] | None = None
    ) -> ClusterUnavailable:
        lines = "\n".join(f"{tp}: {reasons[tp]}" for tp in sorted(reasons))
        return ClusterUnavailable(f"Cannot {what} in memory", lines, "Look at the test.", unanswered=silent or {})

    def _matching(self, subscription: Subscription) -> dict[str, TopicDescription]:
        described = {
            name: TopicDescription(topic.topic_id, {n: log.leader for n, log in topic.logs.items()})
            for name, topic in sorted(self.topics.items())
        }
        match subscription:
            case TopicList(names):
                return {name: described[name] for name in names if name in described}
            case TopicPattern():
                return {name: topic for name, topic in described.items() if subscription.matches(name)}
            case PartitionSet(partitions):
                return {
                    name: TopicDescription(topic.topic_id, {n: topic.leaders[n] for n in numbers if n in topic.leaders})
                    for name, numbers in by_topic(partitions).items()
                    if (topic := described.get(name))
                }
