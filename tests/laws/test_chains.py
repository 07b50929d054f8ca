"""A chain of batches over one log: each goes on exactly where the one before ended, and what lies between is counted.

Between two runs anything may happen: records are produced or deleted, partitions and topics are added, a transaction
begins or ends, the group's commits expire, a run dies before, during or after its Spark jobs or in the middle of its
commit, an old run is cleared and does its batch again. Oracles are the logs themselves, never the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.position import Position
from tests.cluster.memory import MemoryTransaction
from tests.laws.examples import of_examples
from tests.laws.pipelines import Died, Pipeline, cluster, run_key

law = of_examples(120)

T = 1_704_103_200_000
TOPIC = "orders"
PLACES = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1), TopicPartition(f"{TOPIC}-2", 0)]


@dataclass
class World:
    """The cluster and the pipeline on it.

    :ivar log_starts: of each batch, by the plan that it has now: where the logs began when that was made.
    """

    ask: dict[str, Any]
    transaction: MemoryTransaction | None = None
    runs: int = 0
    log_starts: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pipeline = Pipeline(cluster(), {"topic_pattern": f"{TOPIC}.*", **self.ask})
        self.cluster = self.pipeline.cluster
        self.cluster.create_topic(TOPIC)

    # ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
        if self.runs:  # before the first batch the commits of others are the start
            self.cluster.expire("g")

    def run(self, outcome: str, max_records: int | None = None) -> None:
        self.runs += 1
        self._do(self.runs, outcome, max_records)

    def clear(self, which: int, outcome: str) -> None:
        """An earlier run once more."""
        if self.runs:
            self._do(which % self.runs + 1, outcome, None)

    def _do(self, number: int, outcome: str, max_records: int | None) -> None:
        run, pipeline = run_key(number), self.pipeline
        seen = {
            tp: log.log_start_offset for t, topic in self.cluster.topics.items() for tp, log in self._logs(t, topic)
        }
        assignment = pipeline.plan(run, max_records=max_records)
        again = pipeline.plan(run)
        assert again.plan == assignment.plan, "a retry has the same plan, whatever it is asked for"
        if assignment.plan is not None:
            self.log_starts.setdefault(assignment.plan.plan_id, seen)
        if outcome == "fails at once":
            return
        if assignment.batch is not None:
            dies = {"dies before its write": "before", "dies after its write": "after"}.get(outcome)
            pipeline.read(again.batch or assignment.batch, again.splits, dies=dies)
        if outcome in ("dies before its write", "dies after its write", "fails after Spark"):
            return
        left = again.batch is not None and again.batch.log.committed is not None and not again.splits
        try:
            pipeline.commit(run, again, dies=outcome == "dies before the group")
        except Died:
            pass
        except ReadNotVerified:
            assert left, "only a run that leaves a batch to others may find that they have not finished it"

    def _logs(self, name: str, topic: Any) -> list[tuple[TopicPartition, Any]]:
        return [(TopicPartition(name, number), log) for number, log in topic.logs.items()]

    # ── what must be true ─────────────────────────────────────────────────────────────────────────────────────────────

    def play(self, fails_first: bool, events: list[tuple[Any, ...]]) -> list[StoredBatch]:
        self.produce(0, [1, 2, 3, 4, 6])
        self.run("fails at once" if fails_first else "ok")
        for name, *arguments in events:
            getattr(self, name)(*arguments)
        self.end(commits=True)
        for _ in range(2):  # the first may finish a batch that is capped; the last one reads all that is left
            self.run("ok")
        return self.pipeline.batches()


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
LOSS = st.sampled_from(
    [
        {"data_loss": "advance"},
        {"data_loss": "reset", "auto_offset_reset": "earliest"},
        {"data_loss": "reset", "auto_offset_reset": "latest"},
    ]
)
ISOLATION = st.sampled_from(["read_uncommitted", "read_committed"])
PLACE = st.integers(0, len(PLACES) - 1)
OUTCOME = st.sampled_from(
    [
        "ok",
        "ok",
        "ok",
        "ok",
        "fails at once",
        "dies before its write",
        "dies after its write",
        "fails after Spark",
        "dies before the group",
    ]
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), PLACE, st.lists(st.integers(0, 9), min_size=1, max_size=6)),
        st.tuples(st.just("delete"), PLACE, st.integers(1, 20)),  # also what no run has read
        st.tuples(st.just("begin"), st.integers(1, 3)),
        st.tuples(st.just("end"), st.booleans()),
        st.tuples(st.just("expire")),
        st.tuples(st.just("run"), OUTCOME, st.none() | st.integers(1, 6)),
        st.tuples(st.just("clear"), st.integers(0, 9), OUTCOME),
    ),
    max_size=14,
)


# Three offsets are gone, and three that are there are jumped over: rarely drawn.
LOST_AND_SKIPPED = example(
    {"startup_mode": "earliest-offset"}, {"data_loss": "reset", "auto_offset_reset": "latest"}, "read_uncommitted",
    False, [("produce", 0, [1, 2, 3, 4, 5, 6]), ("delete", 0, 8), ("run", "ok", None)],
)  # fmt: skip


def world_of(mode: dict[str, Any], isolation: str, loss: dict[str, Any]) -> World:
    return World({**loss, **mode, "isolation_level": isolation})


def position_of(batch: StoredBatch) -> Position:
    committed = batch.log.committed
    assert committed is not None
    assert committed.position is not None
    return committed.position


@law
@given(START, LOSS, ISOLATION, st.booleans(), EVENTS)
@LOST_AND_SKIPPED
def test_each_batch_goes_on_from_the_position_that_the_commit_before_it_left(
    mode, loss, isolation, fails_first, events
):
    """The next start is the last end, of every partition; only what is gone moves it, and just past what is gone."""
    world = world_of(mode, isolation, loss)
    batches = world.play(fails_first, events)
    assert [batch.log.plan.batch.number for batch in batches] == list(range(1, len(batches) + 1))
    position: Position | None = None
    for batch in batches:
        plan = batch.log.plan
        assert batch.log.planned.position == position
        kept = {tp: found.offset for tp, found in position.offsets.items()} if position else {}
        for p in plan.partitions:
            if p.topic_partition not in kept:
                continue
            log_start, ended = world.log_starts[plan.plan_id][p.topic_partition], kept[p.topic_partition]
            if ended >= log_start:
                assert (p.start_offset, p.lost, p.skipped) == (ended, 0, 0)
                assert p.continuity == "contiguous"
            else:
                gone_up_to = min(log_start, p.end_offset)  # a batch that was shortened loses nothing past its own end
                assert p.lost == gone_up_to - ended, "just what is gone"
                assert p.start_offset == gone_up_to + p.skipped
                assert p.skipped == 0 or resets_to_latest(world), "and nothing else is jumped over unasked"
                assert p.continuity == "gap"
        assert set(kept) <= set(position_of(batch).offsets), "no partition is ever dropped"
        for tp, found in position_of(batch).offsets.items():
            ends = {p.topic_partition: p.end_offset for p in plan.partitions}
            assert found.offset == ends.get(tp, kept.get(tp))
        position = position_of(batch)


def resets_to_latest(world: World) -> bool:
    return world.ask["data_loss"] == "reset" and world.ask["auto_offset_reset"] == "latest"


@law
@given(START, LOSS, ISOLATION, st.booleans(), EVENTS)
@LOST_AND_SKIPPED
def test_each_offset_is_read_by_one_batch_or_lost_or_skipped_and_each_is_counted_exactly(
    mode, loss, isolation, fails_first, events
):
    world = world_of(mode, isolation, loss)
    batches = world.play(fails_first, events)
    for tp, high_watermark in world.pipeline.high_watermarks().items():
        of_tp = [(batch.log.plan, p) for batch in batches for p in batch.log.plan.partitions if p.topic_partition == tp]
        first, read, lost, skipped = None, [], [], []
        for plan, p in of_tp:
            log_start = world.log_starts[plan.plan_id][tp]
            if first is None:  # what the first plan of a partition passes over is its startup mode's, or lies before it
                first = at = p.start_offset
            gone = list(range(at, min(p.start_offset, max(at, log_start))))
            jumped = list(range(at + len(gone), p.start_offset))
            if p is not of_tp[0][1]:
                assert (p.lost, p.skipped) == (len(gone), len(jumped)), f"{tp} in {plan.batch}"
            lost += gone
            skipped += jumped
            read += list(range(p.start_offset, p.end_offset))
            at = p.end_offset
        assert first is not None
        assert sorted([*read, *lost, *skipped]) == list(range(first, high_watermark)), f"{tp}: each exactly once"
        oldest = world.cluster.topics[tp.topic].logs[tp.partition].log_start_offset
        assert all(offset < oldest for offset in lost), "what is counted as lost is gone"
        assert not skipped or resets_to_latest(world)


@law
@given(START, LOSS, ISOLATION, st.booleans(), EVENTS)
@example({"startup_mode": "earliest-offset"}, {"data_loss": "advance"}, "read_uncommitted", False,
         [("produce", 0, [1, 2]), ("run", "fails after Spark", None), ("produce", 0, [3]), ("run", "ok", None),
          ("clear", 1, "ok")])  # fmt: skip
def test_a_reader_of_the_whole_output_finds_each_read_record_once(mode, loss, isolation, fails_first, events):
    """Whatever failed, was done again by another run, or was cleared: the output is keyed by batch, never by run."""
    world = world_of(mode, isolation, loss)
    batches = world.play(fails_first, events)
    found: dict[TopicPartition, list[int]] = {}
    for rows in world.pipeline.lake.values():
        for tp, offsets in rows.items():
            found.setdefault(tp, []).extend(offsets)
    expected: dict[TopicPartition, list[int]] = {}
    for batch in batches:
        for p in batch.log.plan.to_read():
            expected.setdefault(p.topic_partition, []).extend(range(p.start_offset, p.end_offset))
    assert {tp: sorted(offsets) for tp, offsets in found.items() if offsets} == expected


@law
@given(START, LOSS, ISOLATION, st.booleans(), EVENTS)
def test_after_the_last_run_the_group_is_where_the_log_is_and_never_was_ahead(
    mode, loss, isolation, fails_first, events
):
    world = world_of(mode, isolation, loss)

    def check() -> None:
        newest = world.pipeline.log.newest_commit()
        kept = position_of(newest).offsets if newest else {}
        for tp, offset in world.pipeline.held().items():
            assert tp in kept
            assert offset <= kept[tp].offset

    world.produce(0, [1, 2, 3, 4, 6])
    world.run("fails at once" if fails_first else "ok")
    for name, *arguments in events:
        getattr(world, name)(*arguments)
        check()
    world.end(commits=True)
    for _ in range(2):
        world.run("ok")
    assert world.pipeline.held() == world.pipeline.high_watermarks()
    newest = world.pipeline.log.newest()
    assert newest is not None
    assert {tp: kept.offset for tp, kept in position_of(newest).offsets.items()} == world.pipeline.held()
