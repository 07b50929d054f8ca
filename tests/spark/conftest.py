"""One Spark for the session, on the session's broker, and plans made by hand: what is under test starts at the plan."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.offsets.assign import split_plan
from airflow_kafka_offsets.offsets.job import job_arguments
from airflow_kafka_offsets.offsets.model import OffsetRange, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.verify import SplitAttempt
from airflow_kafka_offsets.spark import PlanJob, plan_job
from airflow_kafka_offsets.stores.objects import WorkStore, open_work_store
from airflow_kafka_offsets.stores.reads import latest_attempts
from airflow_kafka_offsets.stores.runs import store_plan
from testbed.broker import KafkaBroker

RUN_ID = "scheduled__2026-11-20T10:00:00+00:00"
Ranges = Mapping[tuple[str, int], tuple[int, int]]


@pytest.fixture(scope="session")
def spark(spark_environment: Mapping[str, str], spark_settings: Mapping[str, str]) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment.items():
            patch.setenv(name, value)
        settings = {**spark_settings, "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
        session = SparkSession.builder.appName("tests").config(map=settings).getOrCreate()
        yield session
        session.stop()


@dataclass
class StoredPlans:
    """A work store of the test's own, with plans in it."""

    store: WorkStore
    bootstrap_servers: str
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def arguments(
        self, ranges: Ranges, *, isolation_level: str = "read_uncommitted", splits: int = 1, split: int = 0
    ) -> list[str]:
        """The arguments that the operator would give to the job of one split."""
        run = RunKey("dag", RUN_ID, "resolve", next(self.numbers))
        partitions = tuple(
            PlannedPartition(TopicPartition(*tp), OffsetRange(*ends), "test", "test", 0)
            for tp, ends in sorted(ranges.items())
        )
        plan = OffsetPlan(
            cluster_id="cluster",
            group_id="group",
            checkpoint_id=None,
            isolation_level=isolation_level,
            startup_mode="earliest-offset",
            bounded_mode="latest-offset",
            window=False,
            resolved_at_ms=0,
            topic_ids={topic: None for topic, _ in ranges},
            partitions=partitions,
            splits=splits,
            run=run,
        )
        stored = store_plan(self.store, run, plan)
        return job_arguments(stored.name, plan.plan_id, split, self.store.uri, self.bootstrap_servers)

    def job(self, ranges: Ranges, **options: object) -> PlanJob:
        return plan_job(["--output", "unused", *self.arguments(ranges, **options)])

    def attempts(self, plan: OffsetPlan) -> dict[int, SplitAttempt]:
        return latest_attempts(self.store, plan, range(len(split_plan(plan))))


@pytest.fixture
def plans(tmp_path: Path, broker: KafkaBroker) -> StoredPlans:
    return StoredPlans(open_work_store(str(tmp_path / "store")), broker.bootstrap_servers)


@pytest.fixture
def filled(broker: KafkaBroker, topic: Callable[..., str]) -> Callable[..., str]:
    """`filled(count, partitions=1)`: a topic with records 0 … count-1, record n in partition n % partitions."""

    def make(count: int, partitions: int = 1) -> str:
        name = topic(partitions)
        broker.produce_many(name, count, partitions=partitions)
        return name

    return make
