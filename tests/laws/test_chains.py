"""A chain of runs over one work store: each record is read by exactly one run, or counted as lost or skipped.

Between two runs anything may happen: records are produced or deleted, partitions and topics are added, a transaction
begins or ends, commits expire, a run fails before or in the middle of its commit, a retry asks for its plan again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.broker.protocol import Fencing
from airflow_kafka_offsets.committing import commit_run
from airflow_kafka_offsets.frozen_plans import plan_run
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.planner import request_for
from airflow_kafka_offsets.stores.objects import open_work_store
from tests.cluster.memory import InMemoryCluster, MemoryTransaction

law = settings(deadline=None, max_examples=60)

T = 1_704_103_200_000
TOPIC = "orders"
PLACES = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1), TopicPartition(f"{TOPIC}-2", 0)]


class Died(Exception):
    """The worker is gone between the group's commit and its checkpoint."""


class Dying:
    """A cluster whose commit arrives in part, or in whole, and whose client never learns it."""

    def __init__(self, cluster: InMemoryCluster, arrived: int) -> None:
        self._cluster, self._arrived = cluster, arrived

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    @contextmanager
    def open_commit(self, group_id: str, fencing: Fencing) -> Iterator[Any]:
        with self._cluster.open_commit(group_id, "compare") as opened:
            yield _Dying(opened, self._arrived)


@dataclass
class _Dying:
    opened: Any
    arrived: int

    def send(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.opened.send(dict(sorted(offsets.items())[: self.arrived]))

    def commit(self) -> None:
        self.opened.commit()
        raise Died


@dataclass
class World:
    """The cluster, the pipeline on it, and what became of each offset."""

    ask: dict[str, Any]
    folder: Path
    cluster: InMemoryCluster = field(default_factory=InMemoryCluster)
    transaction: MemoryTransaction | None = None
    runs: int = 0
    mark_alone: bool = False
    read: dict[TopicPartition, list[int]] = field(default_factory=dict)
    counted: dict[TopicPartition, int] = field(default_factory=dict)
    first: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = open_work_store(str(self.folder))
        self.cluster.create_topic(TOPIC)

    def produce(self, place: int, seconds: list[int]) -> None:
        tp = PLACES[place]
        if tp.topic not in self.cluster.topics:
            self.cluster.create_topic(tp.topic)
        elif tp.partition not in self.cluster.topics[tp.topic].logs:
            self.cluster.add_partitions(tp.topic, 1)
        self.cluster.produce(tp, [T + 1000 * second for second in seconds])

    def delete(self, place: int, count: int) -> None:
        tp = PLACES[place]
        if tp.topic in self.cluster.topics and tp.partition in self.cluster.topics[tp.topic].logs:
            log = self.cluster.topics[tp.topic].logs[tp.partition]
            self.cluster.delete_records(tp, min(log.end("read_committed"), log.log_start_offset + count))

    def begin(self, count: int) -> None:
        if self.transaction is None:
            self.transaction = self.cluster.begin_transaction()
            self.transaction.produce(PLACES[0], [T] * count)

    def end(self, commits: bool) -> None:
        if self.transaction is not None:
            self.transaction.commit() if commits else self.transaction.abort()
            self.transaction = None

    def expire(self) -> None:
        # With a position nothing is reset; before it the commits of others are the start. A commit that landed without
        # its checkpoint, of a run that nobody retried in the seven days, is gone with its mark: that run has failed.
        if self.runs and not self.mark_alone:
            self.cluster.expire("g")

    def run(self, outcome: str, max_records: int | None = None) -> None:
        """``outcome``: ``ok``, ``failed`` before its commit, or ``died 0`` to ``died 3`` after so many partitions."""
        number = self.runs = self.runs + 1
        plan = self.plan(number, max_records)
        assert self.plan(number, None) == plan, "a retry reads the same"
        if outcome == "failed":
            return
        if outcome.startswith("died"):
            arrived = int(outcome[-1])
            try:
                commit_run(plan, self.store, Dying(self.cluster, arrived), require_report=False)  # type: ignore[arg-type]
            except Died:
                self.mark_alone = True
                if arrived == 0 or not plan.partitions:
                    return  # nobody knows of it: the next run reads the same records again, and this one's are void
        else:
            for _first_and_cleared in range(2):
                commit_run(plan, self.store, self.cluster, require_report=False)
            self.mark_alone = False
        self.account(plan)

    def plan(self, number: int, max_records: int | None) -> OffsetPlan:
        run = RunKey("dag", str(number), "resolve")
        ask = {"topic_pattern": f"{TOPIC}.*", "group_id": "g", "checkpoint_id": "c", **self.ask}
        request = request_for({}, {**ask, "max_records": max_records, "run": run, "run_type": "scheduled"})
        return plan_run(request, run, self.store, self.cluster).plan

    def account(self, plan: OffsetPlan) -> None:
        for p in plan.partitions:
            tp = p.topic_partition
            if tp not in self.first:
                # What the first plan of a partition passes over is its startup mode's, or lies deleted before it.
                self.first[tp] = p.start_offset
                self.counted[tp] = 0
            else:
                self.counted[tp] += p.lost + p.skipped
            self.read.setdefault(tp, []).extend(range(p.start_offset, p.end_offset))


START = st.sampled_from(
    [
        {"startup_mode": "earliest-offset"},
        {"startup_mode": "latest-offset"},
        {"startup_mode": "timestamp", "startup_timestamp": T + 5000},
        {"startup_mode": "group-offsets", "auto_offset_reset": "earliest"},
        {"startup_mode": "group-offsets", "auto_offset_reset": "latest"},
        {"startup_mode": "specific-offsets", "specific_offsets": {TOPIC: {"0": 2}}, "auto_offset_reset": "earliest"},
    ]
)
PLACE = st.integers(0, len(PLACES) - 1)
EVENTS = st.one_of(
    st.tuples(st.just("produce"), PLACE, st.lists(st.integers(0, 9), min_size=1, max_size=6)),
    st.tuples(st.just("delete"), PLACE, st.integers(1, 5)),
    st.tuples(st.just("begin"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.booleans()),
    st.tuples(st.just("expire")),
    st.tuples(
        st.just("run"),
        st.sampled_from(["ok", "ok", "failed", "died 0", "died 1", "died 3"]),
        st.none() | st.integers(1, 6),
    ),
)


@law
@given(START, st.sampled_from(["read_uncommitted", "read_committed"]), st.booleans(), st.lists(EVENTS, max_size=14))
def test_a_chain_of_runs_reads_each_record_once_or_counts_it(
    mode: dict[str, Any], isolation: str, fails_first: bool, events: list[tuple[Any, ...]]
) -> None:
    with TemporaryDirectory() as folder:
        world = World({**mode, "isolation_level": isolation, "on_data_loss": "advance"}, Path(folder))
        world.produce(0, [1, 2, 3, 4, 6])
        world.run("failed" if fails_first else "ok")
        for name, *arguments in events:
            getattr(world, name)(*arguments)
        world.end(commits=True)
        world.run("ok")  # the last one has no cap and no open transaction: it reads all that is left
        world.run("ok")
        for topic, described in world.cluster.topics.items():
            for number, log in described.logs.items():
                tp = TopicPartition(topic, number)
                read = world.read.get(tp, [])
                assert read == sorted(set(read)), f"{tp}: once, and in order"
                passed = log.high_watermark - world.first[tp] - len(read)
                assert passed == world.counted[tp], f"{tp}: what was not read is counted"
                assert set(range(log.log_start_offset, log.high_watermark)) - set(read) <= set(range(world.first[tp]))
        committed = world.cluster.committed("g", list(world.first))
        assert {tp: commit.offset for tp, commit in committed.items()} == {
            tp: world.cluster.topics[tp.topic].logs[tp.partition].high_watermark for tp in world.first
        }
