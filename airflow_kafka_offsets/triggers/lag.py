"""For an ``AssetWatcher``: starts a run when enough records wait for a pipeline or a group, once per position.

A run reads all that is there when it plans, and moves the position when it commits, perhaps much later. Until then
whatever is unread is that run's, or the next one's, which the commit brings about. So a backlog that grows fires no
second time. What was fired for is kept in the asset's state store, where Airflow has one (3.3), and only at the next
look: by then Airflow has stored the event. A triggerer that dies may fire twice, and misses no backlog.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError
from airflow_kafka_offsets.kafka_values import ClusterDescription, Subscription, TopicList, TopicPartition
from airflow_kafka_offsets.request import parse_some
from airflow_kafka_offsets.triggers.waiting import StoredTrigger, in_thread, open_cluster, rendered

_STATE_KEY = "kafka_offsets.lag"
Offsets = Mapping[TopicPartition, int]


@dataclass(eq=False, repr=False, kw_only=True)
class KafkaLagTrigger(StoredTrigger, BaseEventTrigger):
    """Fires when the lag is enough, once per position; the payload is ``{"pipeline_id", "group_id", "lag", …}``.

    It joins no group and never ends: what is wrong with the cluster is in the triggerer's log. No templates: nothing
    renders them for a watcher.

    :param pipeline_id: measure from this pipeline's position, over its topics; or
    :param topics: these, as of ``ResolveStartupOffsetsOperator``, from the committed offsets of
    :param group_id: this group.
    :param min_records: so many unread records are enough.
    :param max_age: an unread record that is older is enough, too: seconds or a ``timedelta``.
    :param checkpoint_location: of the pipeline.
    :param poke_interval: seconds between two looks.
    :raises TypeError: with every problem. It is the one kind of error that a triggerer survives.
    """

    pipeline_id: str | None = None
    topics: Any = None
    group_id: str | None = None
    min_records: int = 1
    max_age: float | timedelta | None = None
    kafka_config_id: str = "kafka_default"
    checkpoint_location: str | None = None
    poke_interval: float = 60.0
    asset_state_store: Any = field(init=False, default=None)  # Airflow sets it

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.max_age, timedelta):
            self.max_age = self.max_age.total_seconds()
        problems = []
        if (self.pipeline_id is None) == (self.topics is None) or (self.topics is None) != (self.group_id is None):
            problems.append("give pipeline_id=, or topics= and group_id=.")
        if not isinstance(self.min_records, int) or self.min_records < 1:
            problems.append(f"min_records is {self.min_records!r}; give a number from 1.")
        try:
            given = {"topics": self.topics, "group_id": self.group_id, "pipeline_id": self.pipeline_id}
            parse_some({name: value for name, value in given.items() if value is not None})
        except InvalidRequest as error:
            problems += error.problems
        if problems:
            raise TypeError(f"KafkaLagTrigger: {InvalidRequest(tuple(problems)).message}")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        fired_for = stored = await self._recall()
        while True:
            if fired_for != stored:
                await self._store(fired_for)
                stored = fired_for
            try:
                payload, fired_for = await in_thread(partial(self.look, fired_for))
            except KafkaOffsetsError as error:
                self.log.warning("Looking again in %s s: %s", self.poke_interval, error)
            else:
                if payload is not None:
                    yield TriggerEvent(payload)
            await asyncio.sleep(self.poke_interval)

    def look(self, fired_for: str | None) -> tuple[dict[str, Any] | None, str | None]:
        """Look once: the payload of an event if there is a new backlog, and the position that was fired for.

        :param fired_for: what the look before gave.
        """
        lag, old, position = self._measure()
        if position == fired_for or (lag < self.min_records and not old):
            return None, fired_for
        about = {"pipeline_id": self.pipeline_id, "group_id": self.group_id}
        return {**about, "lag": lag, "partitions_with_old_records": old, "looked_at_ms": now_ms()}, position

    def _measure(self) -> tuple[int, int, str]:
        """Unread records (an upper bound), partitions with one older than ``max_age``, and the position in short."""
        from airflow_kafka_offsets.engine.look import take_snapshots

        own = self._position_of_pipeline()
        with open_cluster(self.kafka_config_id) as cluster:
            found = cluster.describe(self._subscription(own))
            led = _with_leader(found)
            position = own if own is not None else _offsets(cluster.committed(str(self.group_id), led))
            logs = take_snapshots(cluster, led, "read_uncommitted")
            young: Offsets = {}
            if self.max_age is not None:
                since_ms = now_ms() - round(float(self.max_age) * 1000)  # type: ignore[arg-type]  # a number by now
                young = cluster.offsets_for_times(dict.fromkeys(led, max(0, since_ms)), "read_uncommitted")
        starts = {tp: max(position.get(tp, 0), log.log_start_offset) for tp, log in logs.items()}
        # A position past the end is another log's: all of this one is unread, and the run says what is wrong.
        starts |= {tp: log.log_start_offset for tp, log in logs.items() if starts[tp] > log.end_offset}
        lag = sum(log.end_offset - starts[tp] for tp, log in logs.items())
        old = sum(starts[tp] < young.get(tp, log.end_offset) for tp, log in logs.items() if self.max_age is not None)
        rows = "\n".join(f"{tp} {offset}" for tp, offset in sorted(position.items()))
        return lag, old, hashlib.sha256(rows.encode()).hexdigest()[:32]

    def _subscription(self, position: Offsets | None) -> Subscription:
        if position is not None:
            return TopicList(tuple(sorted({tp.topic for tp in position})), all_exist=False)
        subscription: Subscription = parse_some({"topics": self.topics}, rendered())["topics"]
        return subscription

    def _position_of_pipeline(self) -> dict[TopicPartition, int] | None:
        """The next offsets of the pipeline; ``None``: it is measured by the group.

        :raises InvalidRequest: the pipeline has no position.
        """
        from airflow_kafka_offsets.hooks.checkpoint import configured_store
        from airflow_kafka_offsets.log.pipeline_log import PipelineLog

        if self.pipeline_id is None:
            return None
        log = PipelineLog(configured_store(self.checkpoint_location), self.pipeline_id)
        newest = log.newest()
        if newest is None or newest.plan.window is not None:
            why = "has no batch yet: its first run sets the position" if newest is None else "goes by window"
            raise InvalidRequest((f"pipeline_id {self.pipeline_id!r} {why}, so it has no lag.",))
        return _offsets(log.position_after(newest) if newest.is_committed else log.body(newest).resume_from)

    # ── what was fired for, over a restart of the triggerer ───────────────────────────────────────────────────────────

    async def _recall(self) -> Any:
        if self.asset_state_store is None:
            return None
        try:
            return await self.asset_state_store.aget(_STATE_KEY)
        except Exception as error:  # of any kind: without a memory it may fire again, which is a run with nothing to do
            self.log.warning("It is not known which position this has fired for: %s", error)
            return None

    async def _store(self, fired_for: Any) -> None:
        if self.asset_state_store is None:
            return
        try:
            await self.asset_state_store.aset(_STATE_KEY, fired_for)
        except Exception as error:  # as above
            self.log.warning("A restart may fire for the same position again: %s", error)


def _offsets(values: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    return {tp: value.offset for tp, value in values.items()}


def _with_leader(found: ClusterDescription) -> list[TopicPartition]:
    """A partition without a leader has no ends that anybody could name; the others decide."""
    return [tp for tp in found.partitions if found.topics[tp.topic].leaders[tp.partition] is not None]
