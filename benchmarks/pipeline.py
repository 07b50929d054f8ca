"""What the tasks of a pipeline do, as they do it: each over a Kafka client of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.engine.commit import Committed, commit
from airflow_kafka_offsets.engine.surroundings import NoAirflow
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, put_job
from airflow_kafka_offsets.request import RunContext, parse_request
from airflow_kafka_offsets.rows.config import Rows, SinkConfig
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.protocol import Store


@dataclass
class Pipeline:
    """
    :ivar parameters: of ``ResolveStartupOffsetsOperator``.
    """

    servers: str
    parameters: Mapping[str, Any]
    store: Store = field(default_factory=MemoryStore)
    job: str | None = None

    def resolve(self, **changed: Any) -> ResolvedBatch:
        """The batch that the next run does."""
        now_ms = time.time_ns() // 1_000_000
        parameters = {"pipeline_id": "bench", "start": "earliest", **self.parameters, **changed}
        want = parse_request(parameters, RunContext(now_ms, None, {}), self._config)
        run, log = RunKey("bench", str(time.time_ns()), "resolve"), PipelineLog(self.store, want.pipeline_id)
        with KafkaCluster(self._config) as kafka:
            work = resolve(want, run, log, kafka, NoAirflow())
        assert isinstance(work, ResolvedBatch), work
        return work

    def give_job(self, sink: SinkConfig, rows: Rows | None = None) -> None:
        """What the batches' rows mean and where they go."""
        self.job = put_job(PipelineLog(self.store, "bench"), job_object(sink, rows))

    def arguments(self, work: ResolvedBatch) -> list[str]:
        return work.arguments(self.servers, self.job)

    def commit(self, work: ResolvedBatch) -> Committed:
        """:raises ReadNotVerified: the report does not show that the batch was written."""
        with KafkaCluster(self._config) as kafka:
            return commit(work.given(job=self.job), PipelineLog(self.store, work.batch.plan.pipeline), kafka)

    @property
    def _config(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers}
