# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a run would do, or what an act has changed, per partition. A dry run is the same turn over a store and a cluster
that keep their writes to themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, cast

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.state import Decided
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import GroupActive
from airflow_kafka_offsets.kafka_values import CommittedOffset, RunKey, TopicPartition, grouped
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Offsets
from airflow_kafka_offsets.request import Request
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.protocol import Store

_LOG = logging.getLogger(__name__)


class Changes(NamedTuple):
    """
    :ivar done: the result of the turn.
    :ivar lines: ``orders-3: 4711 → 5000, skipped 289``: where partitions resumed before and start now.
    """

    done: ResolvedBatch | NoBatch
    lines: list[str]


def resolve_and_compare(
    request: Request, run: RunKey, log: PipelineLog, kafka: Cluster, airflow: Airflow, *, dry: bool
) -> Changes:
    """Parameters and errors are those of :func:`~airflow_kafka_offsets.engine.turn.resolve`.

    :param dry: nothing is written.
    """
    identity = log.identity()
    is_sequence = identity is not None and identity.kind == "sequence"
    before = Decided(identity).position(log, log.head().committed) if identity is not None and is_sequence else {}
    if dry:
        _LOG.info("Dry run: nothing of what follows is written.")
        log, kafka = PipelineLog(DryStore(log.store), log.pipeline_id), dry_cluster(kafka)
    done = resolve(request, run, log, kafka, airflow)
    return Changes(done, [*_lines(before, done)] if isinstance(done, ResolvedBatch) else [])


def _lines(before: Offsets, done: ResolvedBatch) -> Iterator[str]:
    decisions = grouped((d.partition, d) for d in done.body.decisions)
    identity = done.log.identity(done.batch.plan.identity)
    for tp in sorted({*before, *done.body.ranges, *decisions}):
        was = str(before[tp].offset) if tp in before else "new"
        at = done.body.ranges[tp].start if tp in done.body.ranges else None
        now = str(at) if at is not None else "not read"
        if tp in before and at is not None and identity is not None and identity.is_ended(before[tp]):
            now += " of the re-created topic"
        why = "".join(
            f", {d.effect} {'?' if d.end is None else d.end - d.start} ({d.by})" for d in decisions.get(tp, [])
        )
        if was != now or why:
            yield f"{tp}: {was} → {now}{why}"


class DryStore:
    """What is created is visible in this object only. Nothing is deleted from the store behind it."""

    def __init__(self, store: Store) -> None:
        self.store, self.uri, self.driver_uri, self.is_remote = store, store.uri, store.driver_uri, store.is_remote
        self.own = MemoryStore()

    def create(self, name: str, data: bytes) -> bool:
        there = self.get(name)
        return self.own.create(name, data) if there is None else there == data

    def get(self, name: str) -> bytes | None:
        own = self.own.get(name)
        return self.store.get(name) if own is None else own

    def list(self, folder: str) -> list[str]:
        return sorted({*self.store.list(folder), *self.own.list(folder)})

    def delete(self, name: str) -> None:
        self.own.delete(name)


def dry_cluster(kafka: Cluster) -> Cluster:
    """The same cluster. A commit to a group is refused where Kafka would, else visible in this object only."""
    return cast(Cluster, _DryCluster(kafka))


class _DryCluster:
    def __init__(self, kafka: Cluster) -> None:
        self.kafka = kafka
        self.own: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def __getattr__(self, question: str) -> Any:
        return getattr(self.kafka, question)

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        own = {tp: offset for tp, offset in self.own.get(group_id, {}).items() if tp in partitions}
        return {**self.kafka.committed(group_id, partitions), **own}

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        group = self.kafka.describe_group(group_id)
        if not group.is_empty:
            raise GroupActive(group_id, group.state, group.members)
        self.own.setdefault(group_id, {}).update(offsets)
