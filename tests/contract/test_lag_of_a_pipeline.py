"""The lag of a pipeline: how many records wait, how many questions that takes, and what is an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from airflow_kafka_offsets.batch.measured_lag import lag_question, look_at_lag
from airflow_kafka_offsets.broker.protocol import EndOffset
from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest
from airflow_kafka_offsets.kafka_values import CommittedOffset, IsolationLevel, TopicPartition
from airflow_kafka_offsets.plan.consumer_lag import Lag, parse_limits
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.subscription import parse_scope
from tests.cluster.memory import InMemoryCluster

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000


class Counted(InMemoryCluster):
    """Counts the batch questions."""

    def __init__(self) -> None:
        super().__init__(now_ms=NOW_MS)
        self.asked: Counter[str] = Counter()
        self.cut: set[TopicPartition] = set()

    def committed(self, group_id: str, partitions: Collection[TopicPartition], *, stable: bool = True) -> Any:
        self.asked[f"group {group_id}"] += 1
        return super().committed(group_id, partitions, stable=stable)

    def log_start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked["starts"] += 1
        return super().log_start_offsets(partitions)

    def end_offsets(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, EndOffset]:
        self.asked[f"ends {isolation_level}"] += bool(partitions)
        ends = super().end_offsets(partitions, isolation_level)
        return {tp: EndOffset(-1) if tp in self.cut else end for tp, end in ends.items()}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        self.asked["times"] += 1
        return super().offsets_for_times(times_ms, isolation_level)


@pytest.fixture
def cluster() -> Counted:
    """Two topics with two partitions; records of the last ten minutes, one a minute; group `reader` has read some."""
    made = Counted()
    for topic in ("orders", "payments"):
        made.create_topic(topic, 2)
        for number in range(2):
            times = [NOW_MS - minutes * MINUTE_MS for minutes in range(10, 0, -1)]
            made.produce(TopicPartition(topic, number), times)
    read = {TopicPartition("orders", 0): CommittedOffset(7), TopicPartition("payments", 1): CommittedOffset(10)}
    made.commit_as_somebody_else("reader", read)
    transaction = made.begin_transaction()
    transaction.produce(TopicPartition("orders", 1), [NOW_MS])
    return made


def look(cluster: Counted, topics: str, group: str = "reader", level: str | None = None, **limits: Any) -> Lag:
    scope = parse_scope(ScopeParameters(topics=topics, group_id=group, isolation_level=level))
    question = lag_question(scope, parse_limits(limits.get("min_records"), limits.get("max_age")), None)
    return look_at_lag(question, cluster, cluster.discover(scope.subscription), NOW_MS)


@pytest.mark.parametrize(
    ("asked", "records", "old"),
    [
        ({"topics": "orders"}, 14, 0),
        ({"topics": "orders", "group": "other", "min_records": 5}, 21, 0),
        ({"topics": "orders", "level": "read_committed", "max_age": "PT5M"}, 13, 1),
        ({"topics": "payments", "max_age": "PT5M"}, 10, 1),
        ({"topics": "payments", "max_age": "PT1M", "min_records": 9}, 10, 1),
        ({"topics": "orders,payments", "group": "other", "max_age": "PT3M"}, 41, 4),
    ],
)
def test_what_is_unread_and_what_is_too_old(cluster: Counted, asked: dict[str, Any], records: int, old: int) -> None:
    lag = look(cluster, **asked)
    assert (lag.records, lag.old) == (records, old)


def test_a_look_has_one_question_of_each_kind_however_many_partitions_there_are(cluster: Counted) -> None:
    look(cluster, "orders,payments", level="read_committed", max_age="PT5M")
    kinds = ("group reader", "starts", "ends read_committed", "ends read_uncommitted", "times")
    assert cluster.asked == dict.fromkeys(kinds, 1)


def test_nothing_is_asked_of_times_where_any_age_is_allowed(cluster: Counted) -> None:
    look(cluster, "orders", min_records=3)
    assert cluster.asked == dict.fromkeys(("group reader", "starts", "ends read_uncommitted"), 1)


def test_a_log_that_is_cut_meanwhile_is_looked_at_again(cluster: Counted) -> None:
    cluster.cut = {TopicPartition("payments", 0)}
    with pytest.raises(ClusterUnavailable, match=r"payments\[0\] ends at -1, below the log start") as refused:
        look(cluster, "payments")
    assert refused.value.retriable


def test_what_does_not_exist_is_told_with_the_lag(cluster: Counted) -> None:
    lag = look(cluster, "orders,typo", min_records=50)
    assert str(lag) == "topic typo does not exist; group reader has up to 14 unread records"


def test_without_a_group_there_is_no_lag() -> None:
    with pytest.raises(InvalidRequest, match="Give group_id"):
        lag_question(parse_scope(ScopeParameters(topics="a")), parse_limits(1, None), None)
