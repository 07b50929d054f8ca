# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a turn knows: the run, its look at Kafka, the pipeline's identity, and the log of each shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_kafka_offsets.engine.look import Look, is_of_shard
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.engine.ways import WayOn, ways_on
from airflow_kafka_offsets.kafka_values import Planned, RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import Batch, digits_of
from airflow_kafka_offsets.log.identity import Identity, IdentityBody, Resumed, resume
from airflow_kafka_offsets.log.pipeline_log import Head, PipelineLog
from airflow_kafka_offsets.plan.body import Offset, Offsets
from airflow_kafka_offsets.request import Request


@dataclass(frozen=True)
class Shard:
    """One shard's log; a pipeline without ``shard=`` has one.

    :ivar memory: what Airflow remembers, read before the log.
    :ivar newest: the newest batch of the log.
    """

    log: PipelineLog
    memory: Planned | None
    newest: Batch | None

    @cached_property
    def head(self) -> Head:
        """In sequence."""
        return self.log.head(self.newest)

    def has(self, tp: TopicPartition) -> bool:
        return is_of_shard(tp, self.log.shard)

    def batch_of(self, key: str, bases: Sequence[int]) -> Batch | None:
        """The batch with this key; ``None``: the log has none."""
        newest, numbers = self.newest, {digits_of(key) - base for base in bases}
        numbers = {number for number in numbers if newest is not None and 1 <= number <= newest.number}
        batches = (newest if newest and number == newest.number else self.log.batch(number) for number in numbers)
        return next((batch for batch in batches if batch and key in {plan.key for plan in batch.plans}), None)

    def knows(self, key: str, bases: Sequence[int], plan_id: str | None = None) -> bool:
        """Whether the log has the batch with this key. Most often it is the newest one, or the one before.

        :param plan_id: of a plan that the log must have; ``None``: the batch must be committed.
        """
        before = None if self.newest is None else self.newest.plan.before
        if before is not None and before.key == key:
            return True
        batch = self.batch_of(key, bases)
        if batch is None:
            return False
        return batch.is_committed if plan_id is None else plan_id in {plan.plan_id for plan in batch.plans}


@dataclass(frozen=True)
class Decided:
    """An identity with its per-partition half, which is read only where it is needed.

    :ivar changed: the half of an identity that is not written yet.
    """

    identity: Identity
    changed: IdentityBody | None = None

    def body(self, log: PipelineLog) -> IdentityBody:
        return log.identity_body(self.identity) if self.changed is None else self.changed

    def position(self, log: PipelineLog, committed: Batch | None) -> Offsets:
        """After the newest commit; before there is one, the first starts."""
        if committed is not None:
            return log.position_after(committed)
        return {tp: at for tp, at in self.body(log).first.items() if is_of_shard(tp, log.shard)}

    def resumed(self, log: PipelineLog, committed: Batch | None, unfinished: Batch | None = None) -> Resumed:
        """Where the batch after ``committed`` resumes.

        :param unfinished: that batch, to be planned again: new partitions stay where its plan had them.
        """

        def log_end(tp: TopicPartition) -> int | None:
            planned = None if committed is None or committed.is_cleaned else log.body(committed).ranges.get(tp)
            return None if planned is None else planned.log_end

        position, under = self.position(log, committed), 1 if committed is None else committed.plan.identity
        found: dict[TopicPartition, tuple[Offset, int]] = {}
        if unfinished is not None:
            for plan in unfinished.plans:
                for tp, at in log.body_of(unfinished, plan).resume_from.items():
                    if not self.identity.is_ended(self.identity.on_its_cluster(tp, at, plan.identity)):
                        found.setdefault(tp, (at, plan.identity))
        return self.resumed_from(log, position, under, log_end, found)

    def resumed_from(
        self,
        log: PipelineLog,
        position: Offsets,
        under: int,
        log_end: Callable[[TopicPartition], int | None],
        found: Mapping[TopicPartition, tuple[Offset, int]] | None = None,
    ) -> Resumed:
        first = min((under, *(number for _, number in (found or {}).values())))
        starts = self.body(log).starts if self.identity.starts_at > first else {}
        own = {tp: start for tp, start in starts.items() if is_of_shard(tp, log.shard)}
        return resume(self.identity, own, position, under, log_end, found)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a run knows in one turn.

    :ivar shard: the run's own.
    """

    run: RunKey
    look: Look
    airflow: Airflow
    decided: Decided
    shard: Shard

    @property
    def request(self) -> Request:
        return self.look.request

    @property
    def log(self) -> PipelineLog:
        return self.shard.log

    @property
    def identity(self) -> Identity:
        return self.decided.identity

    @property
    def way_on(self) -> WayOn:
        ways_past, window = self.airflow.ways_past(), self.request.window
        return ways_on(self.log.name, self.identity.number, self.run, ways_past, window)

    def shards(self) -> list[Shard]:
        """The own shard as it was looked at, and the others now; Airflow's memory is of the own one."""
        logs = self.log.of_shards(self.identity.shards)
        return [self.shard if one is self.log else Shard(one, None, one.newest()) for one in logs]
