"""One Spark for the session, on the session's broker, and plans made by hand: what is under test starts at the plan."""

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.kafka_values import Actor, OffsetRange, RunKey, TopicPartition
from airflow_kafka_offsets.log import read_reports as reads
from airflow_kafka_offsets.log.entries import Committed, Planned, Taken
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.plan import BatchName, Plan, PlannedPartition, new_key
from airflow_kafka_offsets.plan.window_claims import TimeClaim, batch_name_of
from airflow_kafka_offsets.spark import Batch, planned_batch
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.broker import KafkaBroker
from testbed.jars import avro_jars
from testbed.java import Java
from testbed.spark import SMALL_QUERIES
from testbed.topics import wait_for
from tests import reads as reads_of_tests
from tests.builders import job_arguments
from tests.builders import plan as plan_of
from tests.stores.builders import as_it_is_now

NOW = 1_795_168_800_000  # 2026-11-20T10:00Z
HOUR = 3_600_000
RUN = RunKey("billing", "scheduled__2026-11-20T10:00:00+00:00", "resolve")
Ranges = Mapping[tuple[str, int], tuple[int, int]]


@pytest.fixture(scope="session")
def spark(
    spark_environment: Mapping[str, str], spark_settings: Mapping[str, str], s3a_jars: list[Path], java: Java
) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment.items():
            patch.setenv(name, value)
        settings = {**spark_settings, "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
        settings["spark.jars"] = ",".join([spark_settings["spark.jars"], *map(str, [*s3a_jars, *avro_jars(java)])])
        settings |= SMALL_QUERIES
        session = SparkSession.builder.appName("tests").config(map=settings).getOrCreate()
        yield session
        session.stop()


@dataclass
class Plans:
    """A work store of the test's own, with batches in it that nobody has read yet; each is in a log of its own."""

    store: LocalStore
    broker: KafkaBroker
    pipelines: Iterator[int] = field(default_factory=itertools.count)

    def plan(self, ranges: Ranges, **fields: Any) -> Plan:
        partitions = tuple(
            PlannedPartition(TopicPartition(*tp), OffsetRange(*ends), "test", "test", 0, ends[0])
            for tp, ends in sorted(ranges.items())
        )
        given: dict[str, Any] = {
            "startup_mode": "earliest-offset",
            "group_follows": False,
            "topic_ids": {topic: self.topic_id(topic) for topic, _ in ranges},
            "run": RUN,
            "instance": None,
            **fields,
        }
        return plan_of(
            partitions, cluster_id="cluster", group_id="group", resolved_at_ms=NOW, **{"pipeline": "pipeline"} | given
        )

    def topic_id(self, topic: str) -> str | None:
        """``None`` where there is no such topic."""
        admin = self.broker.admin()
        try:
            return str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id)
        except KafkaException:
            return None

    def batch(
        self, ranges: Ranges, *, number: int = 1, after: str | None = None, characters: str = "test", **fields: Any
    ) -> StoredBatch:
        """A batch of a pipeline's log, planned."""
        key = new_key(number, NOW, characters)
        plan = self.plan(ranges, batch=BatchName(key, number, after), **fields)
        stored = PipelineLog(self.store, f"pipeline-{next(self.pipelines)}").begin(number, Planned(plan))
        assert stored is not None
        return stored

    def window(self, ranges: Ranges, **fields: Any) -> StoredBatch:
        """The hour before noon, planned."""
        claim = TimeClaim(NOW + HOUR, NOW + 2 * HOUR)
        plan = self.plan(
            ranges,
            batch=batch_name_of(claim, fields.get("pipeline", "pipeline")),
            **{"startup_mode": "timestamp", "bounded_mode": "timestamp", "window": True} | fields,
            window_bounds=(claim.start_ms, claim.end_ms),
        )
        stored = PipelineLog(self.store, f"pipeline-{next(self.pipelines)}").begin_window(claim.name, 1, Planned(plan))
        assert stored is not None
        return stored

    def arguments(self, batch: StoredBatch, split: int = 0, servers: str | None = None) -> list[str]:
        """What the resolve operator gives to the job of one split."""
        servers = servers or self.broker.bootstrap_servers
        return job_arguments(batch.plan_object, batch.log.plan.plan_id, split, self.store.uri, servers)

    def job(self, batch: StoredBatch, split: int = 0) -> Batch:
        return planned_batch(["--output", "unused", *self.arguments(batch, split)])


def write_split(records: DataFrame, batch: Batch, base: Path) -> DataFrame:
    """What a job does: overwrite the split's own folder, and read it back."""
    output = f"{base}/kafka_batch={batch.key}/kafka_split={batch.split}"
    records.write.mode("overwrite").parquet(output)
    return records.sparkSession.read.parquet(output)


def offsets(frame: DataFrame) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of each record, sorted."""
    return sorted(tuple(row) for row in frame.select("topic", "partition", "offset").collect())


def tasks_of(spark: SparkSession, frame: DataFrame) -> tuple[list[Any], int]:
    """The rows of the frame, and how many tasks Spark's scheduler has run for them."""
    context, group = spark.sparkContext, f"counted-{uuid.uuid4().hex}"
    tracker: Any = context.statusTracker()
    context.setJobGroup(group, "its tasks are counted")
    try:
        rows = frame.collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)

    def jobs() -> list[Any]:
        return [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]

    wait_for("Spark's own books are closed", lambda: {job.status for job in jobs()} == {"SUCCEEDED"})
    stages = [tracker.getStageInfo(stage) for job in jobs() for stage in job.stageIds]
    return rows, sum(stage.numCompletedTasks for stage in stages)


def offset_numbers(frame: DataFrame) -> list[int]:
    return [offset for _, _, offset in offsets(frame)]


def require_read(batch: StoredBatch) -> None:
    """What the commit asks; it raises ReadNotVerified."""
    reads_of_tests.require_read(as_it_is_now(batch))


def attempts(batch: StoredBatch, split: int = 0) -> list[int]:
    """The numbers of the attempts that are on record."""
    return [number for number, _ in reads.attempt_numbers(batch.store.list(batch.folder), split)]


def proofs(batch: StoredBatch, split: int = 0) -> list[str]:
    """By which proof the attempts have reported."""
    found = reads.attempt_numbers(batch.store.list(batch.folder), split)
    reports = [reads.report_of(batch.store, batch.folder, split, *attempt) for attempt in found]
    return [report.proof for report in reports if report is not None]


def planned_anew(batch: StoredBatch, plan: Plan) -> StoredBatch:
    """The batch with another plan in the place of its own."""
    anew = as_it_is_now(batch).append(Planned(replace(plan, batch=batch.log.plan.batch, reason="a test")))
    assert anew is not None
    return anew


def committed(batch: StoredBatch) -> StoredBatch:
    """The batch, committed and taken once more by the same run, which is to do it again."""
    actor = Actor(RUN)
    done = as_it_is_now(batch).append(Committed(actor, NOW, batch.log.plan.plan_id, position=None))
    assert done is not None
    again = done.append(Taken(actor, NOW, reads.highest_attempts(done, range(done.log.plan.split_count))))
    assert again is not None
    return again


@pytest.fixture
def plans(tmp_path: Path, broker: KafkaBroker) -> Plans:
    return Plans(LocalStore(tmp_path / "store"), broker)


@pytest.fixture
def filled(broker: KafkaBroker, topic: Callable[..., str]) -> Callable[..., str]:
    """`filled(count, partitions=1)`: a topic with records 0 … count-1, record n in partition n % partitions."""

    def make(count: int, partitions: int = 1) -> str:
        name = topic(partitions)
        broker.produce_many(name, count, partitions=partitions)
        return name

    return make


# Topics with gaps


@pytest.fixture
def transactional(broker: KafkaBroker) -> Iterator[Callable[[], Producer]]:
    """`transactional()`: a producer in a transaction."""
    producers = []  # kept: one that is dropped with a transaction open ends it

    def begin() -> Producer:
        producer = Producer({**broker.client_config, "transactional.id": f"tx-{uuid.uuid4().hex}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producers.append(producer)
        return producer

    yield begin
    producers.clear()


@pytest.fixture
def with_transactions(
    broker: KafkaBroker, topic: Callable[..., str], transactional: Callable[[], Producer]
) -> Iterator[str]:
    """0-4 committed, 5 their marker, 6-8 aborted, 9 their marker, 10-11 plain, 12-13 in a transaction still open."""
    name = topic()
    committed, aborted, still_open = transactional(), transactional(), transactional()
    _produce(committed, name, 5)
    committed.commit_transaction(30)
    _wait_for_end(broker, name, 6)  # the call returns before the marker is in the log
    _produce(aborted, name, 3)
    aborted.abort_transaction(30)
    _wait_for_end(broker, name, 10)
    broker.produce_many(name, 2)
    _produce(still_open, name, 2)
    assert broker.offset_bounds(name) == {0: (0, 14)}
    wait_for("the markers are written", lambda: _last_stable_offset(broker, name) == 12)
    yield name
    still_open.abort_transaction(30)


def _produce(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def _wait_for_end(broker: KafkaBroker, topic: str, end: int) -> None:
    wait_for(f"{topic} ends at {end}", lambda: broker.offset_bounds(topic) == {0: (0, end)})


def _last_stable_offset(broker: KafkaBroker, topic: str) -> int:
    partition, admin = Partition(topic, 0), broker.admin()
    futures = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    return int(futures[partition].result(30).offset)


COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
NOT_YET = {"min.compaction.lag.ms": "86400000"}


def _configure(broker: KafkaBroker, kind: ResourceType, name: str, config: Mapping[str, str]) -> None:
    entries = [ConfigEntry(*item, incremental_operation=AlterConfigOpType.SET) for item in config.items()]
    changed = ConfigResource(kind, name, incremental_configs=entries)
    admin = broker.admin()  # kept until it has answered
    for future in admin.incremental_alter_configs([changed]).values():
        future.result(30)


def compact(broker: KafkaBroker, name: str) -> None:
    """Let a topic of `COMPACTED` lose its first records. The cleaner looks every 15 s; the broker is told to hurry."""
    _configure(broker, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "50"})
    _configure(broker, ResourceType.TOPIC, name, dict.fromkeys(NOT_YET, "0"))

    def first_offset() -> int:
        broker.produce(name, [(0, b"other", b"x", None)])  # a segment is closed by what comes after it
        consumer = Consumer({**broker.client_config, "group.id": "none", "enable.auto.commit": False})
        try:
            consumer.assign([Partition(name, 0, 0)])
            message = consumer.poll(10)
            return int(message.offset()) if message is not None and message.error() is None else 0
        finally:
            consumer.close()

    wait_for("the first records are compacted away", lambda: first_offset() > 0)


@pytest.fixture
def compacted(broker: KafkaBroker, topic: Callable[..., str]) -> str:
    """A topic that has lost records to compaction."""
    name = topic(config=COMPACTED)
    for _ in range(4):
        broker.produce(name, [(0, b"same", b"%d" % n, n) for n in range(20)])
    compact(broker, name)
    return name
