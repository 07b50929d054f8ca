"""What is measured of this package, called as its users do. Whoever renames something there edits only this file."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, RunKey, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.read_reports import begin_attempt, store_report
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.plan.plan import Draft
from airflow_kafka_offsets.plan.plan_json import plan_to_dict, spark_options
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from airflow_kafka_offsets.request.subscription import TopicPattern
from airflow_kafka_offsets.stores.open import open_store
from tests.builders import job_arguments
from tests.engine import Asker, Assignment, NoAirflow, PlanReference, commit_batch, mirror, plan_batch, plan_offsets
from tests.reads import require_read

ALL_TOPICS = "t[0-9]+"


class Ours:
    """The look-ups over one client that stays, and whole plans by a new one each, as a task has it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._config = {"bootstrap.servers": bootstrap_servers}
        self.cluster = KafkaCluster(self._config, attempt_s=60.0)
        self.partitions: list[TopicPartition] = self.discover()

    def discover(self) -> list[TopicPartition]:
        return self.cluster.describe(TopicPattern(ALL_TOPICS)).partitions()

    def log_starts(self) -> int:
        return len(self.cluster.log_start_offsets(self.partitions))

    def ends(self) -> int:
        return len(self.cluster.end_offsets(self.partitions, "read_uncommitted"))

    def at(self, time_ms: int) -> int:
        return len(self.cluster.offsets_for_times(dict.fromkeys(self.partitions, time_ms), "read_uncommitted"))

    def committed(self, group: str) -> int:
        return len(self.cluster.committed(group, self.partitions))

    def commit(self, group: str, metadata: str = "") -> None:
        self.cluster.commit_offsets(group, dict.fromkeys(self.partitions, CommittedOffset(0, None, metadata)))

    def plan(self, group: str) -> Draft:
        """Topics, log starts, ends, what the group holds; each partition decided."""
        return plan_offsets(self._config, topic_pattern=ALL_TOPICS, group_id=group, auto_offset_reset="earliest")

    def plan_and_options(self, group: str) -> int:
        """The plan, its JSON, and the options of Spark's source."""
        plan = self.plan(group)
        return len(json.dumps(plan_to_dict(plan))) + sum(map(len, spark_options(plan.partitions).values()))

    def resolve(self, group: str, folder: Path) -> int:
        """What the resolve task does: the plan, on record in a work store on this disk, and the group's marks."""
        return len(self._assigned(group, folder)[0].splits)

    def arguments(self, group: str, folder: Path) -> list[str]:
        """The same, and the arguments of its first Spark job."""
        assignment, pipeline = self._assigned(group, folder)
        assert assignment.batch is not None
        about = pipeline.store.driver_uri, self._config["bootstrap.servers"], "kafka_default"
        return job_arguments(assignment.batch.plan_object, assignment.batch.log.plan.plan_id, 0, *about)

    def committed_batch(self, group: str, folder: Path) -> CommittedBatch:
        """A batch with its report, committed, to measure what a commit does."""
        assignment, pipeline = self._assigned(group, folder)
        batch, plan = assignment.batch, assignment.plan
        assert batch is not None
        assert plan is not None
        read = {
            p.topic_partition: PartitionRead(p.range.size, p.range.size, p.start_offset, p.end_offset - 1)
            for p in plan.to_read()
        }
        begin_attempt(pipeline.store, batch.folder, 0, 1, "bench", {})
        report = ReadReport(plan.plan_id, 0, 1, "rows", read)
        store_report(pipeline.store, batch.folder, "bench", report)
        me = Actor(plan.by.run, plan.by.instance)
        handed = PlanReference(batch.name, plan.plan_id)
        with KafkaCluster(self._config, attempt_s=60.0) as cluster:
            commit_batch(handed, pipeline, cluster, me, now_ms=time.time_ns() // 1_000_000)
        return CommittedBatch(self._config, pipeline, me, report)

    def _assigned(self, group: str, folder: Path) -> tuple[Assignment, PipelineLog]:
        given = RequestParameters(
            topic_pattern=ALL_TOPICS, group_id=group, auto_offset_reset="earliest", pipeline_id=str(time.time_ns())
        )
        request = request_for(self._config, given, RunContext(time.time_ns() // 1_000_000))
        run = RunKey("bench", str(time.time_ns()), "resolve")
        pipeline = PipelineLog(open_store(str(folder)), request.scope.pipeline_id or "")
        with KafkaCluster(self._config, attempt_s=60.0) as cluster:
            return plan_batch(Asker(request, run, pipeline, cluster, NoAirflow())), pipeline


@dataclass(frozen=True)
class CommittedBatch:
    """What the commit task does once more of a batch that is committed."""

    config: Mapping[str, str]
    pipeline: PipelineLog
    me: Actor
    report: ReadReport

    def verify(self) -> None:
        """The report, read from the work store and held against the plan."""
        batch = self.pipeline.newest()
        assert batch is not None
        require_read(batch)

    def report_json(self) -> int:
        """What the driver writes."""
        return len(json.dumps(self.report.to_dict()))

    def mirror(self) -> int:
        """The group's offsets, compared with the position and written again."""
        with KafkaCluster(self.config, attempt_s=60.0) as cluster:
            return len(mirror(self.pipeline, cluster, self.me).written)


def only_plan(arguments: Sequence[str]) -> None:
    """A process of its own, for its memory: servers and group, or nothing for the idle interpreter."""
    if arguments:
        servers, group = arguments
        config = {"bootstrap.servers": servers}
        plan = plan_offsets(config, topic_pattern=ALL_TOPICS, group_id=group, auto_offset_reset="earliest")
        print(len(json.dumps(plan_to_dict(plan))))
