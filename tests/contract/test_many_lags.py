"""The lag of many watches by one round of questions: each gets the answer that it gets alone, and its own error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from airflow_kafka_offsets.broker.protocol import EndOffset
from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest, KafkaOffsetsError, NotAuthorized
from airflow_kafka_offsets.offsets.lag import Lag, parse_limits
from airflow_kafka_offsets.offsets.model import ClusterDescription, CommittedOffset, IsolationLevel, TopicPartition
from airflow_kafka_offsets.offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.offsets.request.subscription import parse_scope
from airflow_kafka_offsets.pipeline.lag import LagQuestion, lag_question, look_at_lag, look_at_lags
from tests.cluster.memory import InMemoryCluster

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000


class Counted(InMemoryCluster):
    """Counts the batch questions; refuses to read a group, and to look up a topic's ends, where it is told so."""

    def __init__(self) -> None:
        super().__init__(now_ms=NOW_MS)
        self.asked: Counter[str] = Counter()
        self.secret_groups: set[str] = set()
        self.broken_topics: set[str] = set()
        self.cut: set[TopicPartition] = set()

    def committed(self, group_id: str, partitions: Collection[TopicPartition], *, stable: bool = True) -> Any:
        self.asked[f"group {group_id}"] += 1
        if group_id in self.secret_groups:
            raise NotAuthorized(f"read {group_id}", "denied", "Give the right.")
        return super().committed(group_id, partitions, stable=stable)

    def log_start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked["starts"] += 1
        broken = sorted(tp for tp in partitions if tp.topic in self.broken_topics)
        if broken:
            raise ClusterUnavailable("look up", f"{broken[0]} has no answer", "Wait.", retriable=True)
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


def question(topics: str, group: str = "reader", *, level: str | None = None, **limits: Any) -> LagQuestion:
    scope = parse_scope(ScopeParameters(topics=topics, group_id=group, isolation_level=level))
    return lag_question(scope, parse_limits(limits.get("min_records"), limits.get("max_age")), None)


def descriptions(cluster: Counted, questions: list[LagQuestion]) -> list[ClusterDescription]:
    return [cluster.describe(one.scope.subscription) for one in questions]


def answers(cluster: Counted, questions: list[LagQuestion]) -> list[Lag | KafkaOffsetsError]:
    return look_at_lags(questions, cluster, descriptions(cluster, questions), NOW_MS)


WATCHES = [
    question("orders"),
    question("orders", "other", min_records=5),
    question("orders", level="read_committed", max_age="PT5M"),
    question("payments", max_age="PT5M"),
    question("payments", max_age="PT1M", min_records=9),
    question("orders,payments", "other", max_age="PT3M"),
]


def test_together_they_get_the_answers_that_each_gets_alone(cluster: Counted) -> None:
    alone = [
        look_at_lag(one, cluster, of_one, NOW_MS)
        for one, of_one in zip(WATCHES, descriptions(cluster, WATCHES), strict=True)
    ]
    assert answers(cluster, WATCHES) == alone
    assert [lag.records for lag in alone] == [14, 21, 13, 10, 10, 41]
    assert [lag.old for lag in alone] == [0, 0, 1, 1, 1, 4]


def test_a_round_has_one_question_of_each_kind_however_many_watches_there_are(cluster: Counted) -> None:
    assert len(answers(cluster, WATCHES * 10)) == 60
    assert cluster.asked == {
        "group reader": 1,
        "group other": 1,
        "starts": 1,
        "ends read_uncommitted": 1,
        "ends read_committed": 1,
        "times": 4,  # one for each isolation level; payments is asked for three ages, and a partition once a question
    }


def test_a_group_that_may_not_be_read_is_an_error_of_its_watches_alone(cluster: Counted) -> None:
    cluster.secret_groups = {"other"}
    found = answers(cluster, WATCHES)
    assert [type(one) for one in found] == [Lag, NotAuthorized, Lag, Lag, Lag, NotAuthorized]
    assert cluster.asked["starts"] == 1, "it costs the others nothing"


def test_a_partition_without_an_answer_is_an_error_of_its_watches_alone(cluster: Counted) -> None:
    cluster.broken_topics = {"payments"}
    assert [type(one) for one in answers(cluster, WATCHES)] == [Lag] * 3 + [ClusterUnavailable] * 3


def test_a_log_that_is_cut_meanwhile_is_looked_at_again(cluster: Counted) -> None:
    cluster.cut = {TopicPartition("payments", 0)}
    found = answers(cluster, WATCHES)
    assert [type(one) for one in found] == [Lag] * 3 + [ClusterUnavailable] * 3
    assert "payments[0] ends below the log start" in str(found[3])
    assert isinstance(found[3], ClusterUnavailable)
    assert found[3].retriable


def test_what_does_not_exist_is_told_with_the_lag(cluster: Counted) -> None:
    scope = parse_scope(ScopeParameters(topics="orders,typo", group_id="reader"))
    asked = lag_question(scope, parse_limits(50, None), None)
    lag = look_at_lag(asked, cluster, cluster.describe(question("orders").scope.subscription), NOW_MS)
    assert str(lag) == "topic typo does not exist; group reader has up to 14 unread records"


def test_without_a_group_there_is_no_lag() -> None:
    with pytest.raises(InvalidRequest, match="Give group_id"):
        lag_question(parse_scope(ScopeParameters(topics="a")), parse_limits(1, None), None)
