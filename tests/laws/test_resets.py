"""Resets between runs: whatever a person does to the position, every offset is read, counted as passed over, or read
again as often as the position went back.

Between them records come and go, runs fail after their plan, and resets die before their commit or before the group is
written. What the log says is held against the rows in the output, which the code under test does not count.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import ResetRefused
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.plan.position import Position, ShiftBy, ToOffset
from airflow_kafka_offsets.request.modes import AtTimestamp
from tests.engine import NO_AIRFLOW, Reset, reset_position
from tests.laws.examples import of_examples
from tests.laws.pipelines import NOW, Died, Dying, Pipeline, cluster, run_key
from tests.model.store import MemoryStore

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


class DyingStore:
    """A work store whose process dies before it writes an entry after a plan."""

    def __init__(self, real: MemoryStore) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create(self, name: str, data: bytes) -> bool:
        if name.endswith("/2.json"):
            raise Died
        return self._real.create(name, data)


class World:
    """A pipeline on two partitions; each method is something that happens."""

    def __init__(self) -> None:
        self.cluster = cluster()
        self.cluster.create_topic("orders", 2)
        self.store = MemoryStore()
        self.pipeline = Pipeline(
            self.cluster,
            {"topics": ["orders"], "startup_mode": "earliest-offset", "data_loss": "advance"},
            self.store,
        )
        self.runs = 0

    def produce(self, place: int, count: int) -> None:
        self.cluster.produce(PLACES[place], [NOW] * count)

    def delete(self, place: int, count: int) -> None:
        log = self.cluster.topics["orders"].logs[place]
        self.cluster.delete_records(PLACES[place], min(log.high_watermark, log.log_start_offset + count))

    def run(self, fails: bool) -> None:
        self.runs += 1
        if fails:
            self.pipeline.plan(run_key(self.runs))
        else:
            self.pipeline.run(run_key(self.runs))

    def reset(self, target: Any, dies: str | None) -> None:
        on: Any = Dying(self.cluster) if dies == "before the group" else self.cluster
        log = self.pipeline.log
        if dies == "before its commit":
            log.store = DyingStore(self.store)  # type: ignore[assignment]
        asked = Reset(target, "law", allow_duplicates=True)
        with suppress(Died, ResetRefused):  # refused: a batch is unfinished
            reset_position(log, on, Actor(None, NO_AIRFLOW), asked, now_ms=NOW, dry_run=False)


TARGETS = (
    st.sampled_from(["earliest-offset", "latest-offset", ShiftBy(), AtTimestamp(NOW), AtTimestamp(NOW + 1)])
    | st.builds(ShiftBy, st.integers(-9, 9))
    | st.builds(ToOffset, st.integers(0, 20))
)
EVENTS = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, 1), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.integers(0, 1), st.integers(1, 12)),
    st.tuples(st.just("run"), st.booleans()),
    st.tuples(st.just("reset"), TARGETS, st.sampled_from([None, None, "before its commit", "before the group"])),
)


@of_examples(150)
@example([("produce", 0, 4), ("delete", 0, 7), ("reset", "latest-offset", None)])
@example([("reset", "earliest-offset", "before its commit"), ("run", True), ("reset", ShiftBy(-2), "before the group")])
@given(st.lists(EVENTS, min_size=6, max_size=20))
def test_every_offset_is_read_or_counted_and_each_batch_goes_on_where_the_one_before_ended(
    events: list[tuple[Any, ...]],
) -> None:
    world = World()
    world.produce(0, 5)
    world.run(fails=False)
    for name, *arguments in events:
        getattr(world, name)(*arguments)
    for _ in range(2):  # the first may finish a batch; the second reads all that is left
        world.run(fails=False)

    passed: Counter[TopicPartition] = Counter()
    position: Position | None = None
    for batch in world.pipeline.batches():
        planned, committed = batch.log.planned, batch.log.committed
        assert committed is not None
        assert planned.position == position
        for p in planned.plan.partitions:
            before = position.offsets[p.topic_partition].offset if position else 0
            passed[p.topic_partition] += p.skipped + p.lost - max(0, before - p.start_offset)
        position = committed.position
    assert position is not None
    for rows in world.pipeline.lake.values():
        passed.update({tp: len(offsets) for tp, offsets in rows.items()})
    at = {tp: kept.offset for tp, kept in position.offsets.items()}
    assert at == {tp: passed[tp] for tp in PLACES}
    assert world.pipeline.held() == at, "the group follows"
