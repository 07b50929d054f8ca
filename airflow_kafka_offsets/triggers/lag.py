# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""For an ``AssetWatcher``: starts a run when enough records wait for a pipeline or a group.

A run reads all that is there when it plans, and moves the position when it commits, perhaps much later. Until then
whatever is unread is that run's, or the next one's, which the commit brings about. So a backlog that grows fires no
second time for the same position, until ``again_after`` has passed: the run may have failed, or never have come about.
What was fired for, and when, is kept in the asset's state store, where Airflow has one (3.3), and only at the next
look: by then Airflow has stored the event. A triggerer that dies may fire twice, and misses no backlog.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError
from airflow_kafka_offsets.kafka_values import Subscription, TopicPartition
from airflow_kafka_offsets.request import parse_some
from airflow_kafka_offsets.triggers.waiting import StoredTrigger, in_thread, open_cluster, rendered

if TYPE_CHECKING:
    from airflow_kafka_offsets.broker.protocol import Cluster
    from airflow_kafka_offsets.engine.lag import Lag

_STATE_KEY = "kafka_offsets.lag"


class Fired(TypedDict):
    """What an event was fired for, as the asset's state store has it.

    :ivar position: a digest; ``None``: of a pipeline that no run has begun.
    """

    position: str | None
    at_ms: int


@dataclass(eq=False, repr=False, kw_only=True)
class KafkaLagTrigger(StoredTrigger, BaseEventTrigger):
    """Fires when the lag is enough; the payload is ``{"pipeline_id", "group_id", "lag", …}``.

    It joins no group and never ends: errors of the cluster are in the triggerer's log. Templates are not rendered.
    Records behind an open transaction are not counted if the pipeline, or the Kafka connection, reads committed ones.

    :param pipeline_id: measure from this pipeline's position, over the partitions that it reads. A pipeline without a
        run gets its first one.
    :param topics: without ``pipeline_id``: as in ``ResolveStartupOffsetsOperator``.
    :param group_id: without ``pipeline_id``: measure from the committed offsets of this group.
    :param min_records: fire if this many records are unread.
    :param max_age: fire also if an unread record is older: seconds or a ``timedelta``.
    :param again_after: fire again if the position has not moved for this long: longer than a run takes with its
        retries. Give the DAG ``max_active_runs=1``, or runs overlap. Seconds or a ``timedelta``.
    :param checkpoint_location: of the pipeline.
    :param poke_interval: seconds between two checks.
    :raises TypeError: with every problem. It is the one kind of error that a triggerer survives.
    """

    pipeline_id: str | None = None
    topics: Any = None
    group_id: str | None = None
    min_records: int = 1
    max_age: float | timedelta | None = None
    again_after: float | timedelta = timedelta(minutes=15)
    kafka_config_id: str = "kafka_default"
    checkpoint_location: str | None = None
    poke_interval: float = 60.0
    asset_state_store: Any = field(init=False, default=None)  # Airflow sets it

    def __post_init__(self) -> None:
        super().__post_init__()
        self.max_age = self.max_age if self.max_age is None else _seconds(self.max_age)
        self.again_after = _seconds(self.again_after)
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
                self.log.warning("Retrying in %s s: %s", self.poke_interval, error)
            else:
                if payload is not None:
                    yield TriggerEvent(payload)
            await asyncio.sleep(self.poke_interval)

    def look(self, fired_for: Fired | None) -> tuple[dict[str, Any] | None, Fired | None]:
        """Look once: the payload of an event if there is a new backlog, and what was fired for.

        :param fired_for: what the look before gave.
        """
        with open_cluster(self.kafka_config_id) as cluster:
            lag = self._lag(cluster)
        now, unread, old, position = now_ms(), None, 0, None
        if lag is not None:
            since_ms = -1 if self.max_age is None else now - _seconds(self.max_age) * 1000
            unread = sum(partition.unread for partition in lag.values())
            old = sum(p.oldest_ms is not None and p.oldest_ms <= since_ms for p in lag.values())
            position = _mark({tp: p.position for tp, p in lag.items() if p.position is not None})
        is_enough = unread is None or unread >= self.min_records or old
        repeats_after_ms = _seconds(self.again_after) * 1000
        is_fired = fired_for and fired_for["position"] == position and now - fired_for["at_ms"] < repeats_after_ms
        if is_fired or not is_enough:
            return None, fired_for
        about = {"pipeline_id": self.pipeline_id, "group_id": self.group_id}
        event = {**about, "lag": unread, "partitions_with_old_records": old, "looked_at_ms": now}
        return event, {"position": position, "at_ms": now}

    def _lag(self, cluster: Cluster) -> Lag | None:
        """``None``: no run of the pipeline has begun it.

        :raises InvalidRequest: it has no position.
        """
        from airflow_kafka_offsets.engine.lag import lag_of_group, lag_of_pipeline
        from airflow_kafka_offsets.hooks.checkpoint import configured_store
        from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
        from airflow_kafka_offsets.log.pipeline_log import PipelineLog

        with_times = self.max_age is not None
        if self.pipeline_id is None:
            topics: Subscription = parse_some({"topics": self.topics}, rendered())["topics"]
            level = KafkaOffsetsHook(self.kafka_config_id).client_config.get("isolation.level", "read_uncommitted")
            return lag_of_group(cluster, str(self.group_id), topics, level, with_times=with_times)
        log = PipelineLog(configured_store(self.checkpoint_location), self.pipeline_id)
        lag = lag_of_pipeline(log, log.newest(), cluster, with_times=with_times)
        if lag is None and log.identity() is not None:
            why = "reads by window, or another cluster"
            raise InvalidRequest((f"pipeline_id {self.pipeline_id!r} has no position to measure from: it {why}.",))
        return lag

    # ── what was fired for, over a restart of the triggerer ───────────────────────────────────────────────────────────

    async def _recall(self) -> Any:
        if self.asset_state_store is None:
            return None
        try:
            return await self.asset_state_store.aget(_STATE_KEY)
        except Exception as error:  # of any kind: without a memory it may fire again, which is a run with nothing to do
            self.log.warning("Cannot read the position that this trigger last fired for: %s", error)
            return None

    async def _store(self, fired_for: Any) -> None:
        if self.asset_state_store is None:
            return
        try:
            await self.asset_state_store.aset(_STATE_KEY, fired_for)
        except Exception as error:  # as above
            self.log.warning(
                "Cannot store the position that this trigger fired for; a restart may fire for it again: %s", error
            )


def _seconds(span: float | timedelta) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else span


def _mark(position: Mapping[TopicPartition, int]) -> str:
    """A position in few characters. A new partition is not in it: it moves no position."""
    rows = "\n".join(f"{tp} {offset}" for tp, offset in sorted(position.items()))
    return hashlib.sha256(rows.encode()).hexdigest()[:32]
