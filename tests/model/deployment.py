"""What is deployed: pipelines with their logs, runs with their tasks, and the Airflow that they ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.engine.work import PlanReference, ResolvedBatch
from airflow_kafka_offsets.kafka_values import Planned, RunKey
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.identity import Identity, identity_from_dict
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import decode
from tests.model.driver import Job
from tests.model.stepping import SteppingCluster, SteppingStore

if TYPE_CHECKING:
    from tests.model.world import World


@dataclass
class Pipeline:
    """A deployment of the DAG: in one environment, with one checkpoint location.

    :ivar memory: what Airflow remembers, by ``pipeline_id`` with shard.
    """

    name: str
    store: SteppingStore
    shards: int = 1
    start: Any = "earliest"
    group: str | None = None
    memory: dict[str, Planned] = field(default_factory=dict)

    def logs(self, store: MemoryStore | None = None) -> list[PipelineLog]:
        return PipelineLog(store or self.store.view, self.name).of_shards(self.shards)


@dataclass
class Run:
    """The tasks of one shard in a DAG run, as Airflow knows them.

    :ivar task: the task to run next; ``done``: all have succeeded.
    :ivar window: in units of the world's clock.
    """

    run_id: str
    shard: int
    pipeline: Pipeline
    window: tuple[int, int] | None
    conf: Any = None
    task: str = "resolve"
    tries: int = 0
    work: ResolvedBatch | None = None
    given: PlanReference | None = None
    job: Job = field(default_factory=lambda: Job(0, "A"))
    kafka: SteppingCluster | None = None

    @property
    def name(self) -> str:
        return f"{self.run_id}.{self.shard}"


@dataclass(frozen=True)
class AirflowOf:
    """What a run's task asks its Airflow."""

    world: World
    run: Run
    pipeline_id: str

    def is_running(self, run: RunKey) -> bool:
        return f"{run.run_id}.{max(run.map_index, 0)}" in self.world.alive

    def last_planned(self) -> Planned | None:
        return self.run.pipeline.memory.get(self.pipeline_id)

    def triggering_user(self) -> str | None:
        return None if self.run.conf is None else "maria"

    def ways_past(self) -> str:
        return ""

    def job(self, topics: Any) -> dict[str, Any] | None:
        """Without bad records, what is gone is left."""
        return Job(self.world.job_number, self.world.req_output).described if self.world.tables.decoded_from else None


def identities_in(objects: dict[str, bytes], name: str) -> list[Identity]:
    found = []
    while (data := objects.get(f"{name}/pipeline/{len(found) + 1}.json")) is not None:
        found.append(identity_from_dict(decode(data)))
    return found


def batches_in(log: PipelineLog) -> list[Batch]:
    found = list[Batch]()
    while (batch := log.batch(len(found) + 1)) is not None:
        found.append(batch)
    return found
