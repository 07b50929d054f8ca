"""A pipeline on three brokers, and the questions that a test asks of it while they fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.batch.measured_lag import lag_question, look_at_lag
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import ClusterUnavailable, KafkaOffsetsError
from airflow_kafka_offsets.plan.consumer_lag import Lag, parse_limits
from airflow_kafka_offsets.request.subscription import Scope, TopicList
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.three_brokers import ThreeBrokers
from tests.contract.pipeline import Pipeline
from tests.failing.timed import Timed

PARTITIONS = 3


@dataclass
class Site:
    """A topic, its pipeline and what was produced.

    :ivar produced: by partition number, how many records there are.
    """

    kafka: ThreeBrokers
    topic: str
    group: str
    pipeline: Pipeline
    deadline_s: float
    produced: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def new(kafka: ThreeBrokers, store: Path, group: str, *, deadline_s: float = 8.0, attempt_s: float = 2.0) -> Site:
        topic = f"orders-{group}"
        kafka.create_topic(topic, PARTITIONS)
        cluster = KafkaCluster(kafka.client_config, deadline_s=deadline_s, attempt_s=attempt_s)
        pipeline = Pipeline(Timed(cluster), LocalStore(store), topic, group)
        return Site(kafka, topic, group, pipeline, deadline_s)

    @property
    def timed(self) -> Timed:
        timed: Timed = self.pipeline.cluster
        return timed

    def produce(self, count: int = 10) -> None:
        """``count`` records in each partition."""
        self.kafka.produce(self.topic, [(p, None, "x", None) for p in range(PARTITIONS) for _ in range(count)])
        for number in range(PARTITIONS):
            self.produced[number] = self.produced.get(number, 0) + count

    def look(self) -> Lag:
        """A look of OffsetLagSensor, as the triggerer makes it.

        :raises KafkaOffsetsError: it has no answer.
        """
        scope = Scope(TopicList((self.topic,)), self.group, "read_committed", self.pipeline.pipeline_id)
        question = lag_question(scope, parse_limits(None, None), self.pipeline.log)
        return look_at_lag(question, self.timed, self.timed.discover(scope.subscription), now_ms())

    def require_deadlines(self) -> None:
        self.timed.require_deadlines(self.deadline_s)

    def require_exact(self) -> None:
        """Every record is in the output once; log and group are at the end; nothing is left."""
        assert self.pipeline.lake.offsets() == {number: list(range(count)) for number, count in self.produced.items()}
        assert self.pipeline.at() == self.produced
        assert self.pipeline.held() == self.produced
        assert self.look().records == 0

    def close(self) -> None:
        self.timed.cluster.close()


def repeated(step: Callable[[], Any], tries: int = 20) -> tuple[Any, list[ClusterUnavailable]]:
    """What the step returns, once more after each try that failed, as Airflow makes them; and the failures."""
    failed: list[ClusterUnavailable] = []
    while True:
        try:
            return step(), failed
        except ClusterUnavailable as error:
            failed.append(error)
            assert len(failed) < tries, failed


def took(step: Callable[[], Any]) -> tuple[Any, float]:
    """What a step returns, or the error that it ends with; and how long it took."""
    began = time.monotonic()
    try:
        found: Any = step()
    except KafkaOffsetsError as error:
        found = error
    return found, time.monotonic() - began
