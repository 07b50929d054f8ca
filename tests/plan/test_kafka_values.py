"""The core's smallest values: an invalid one cannot be built, and their order is the order of every output."""

import pytest

from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    OffsetRange,
    PartitionSnapshot,
    RunKey,
    TopicDescription,
    TopicPartition,
    by_topic,
)
from tests.builders import tp


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: OffsetRange(5, 3), "end offset 3 is below start offset 5", id="a range that runs back"),
        pytest.param(lambda: OffsetRange(-1, 3), "start offset -1 is negative", id="a range from a sentinel"),
        pytest.param(lambda: CommittedOffset(-1001), "committed offset -1001 is negative", id="a commit that is none"),
        pytest.param(lambda: PartitionSnapshot(-1, 3, 3), "log start offset -1", id="a log start that is none"),
        pytest.param(lambda: PartitionSnapshot(0, 4, 3), "above high watermark 3", id="an end above the watermark"),
        pytest.param(lambda: PartitionSnapshot(5, 3, 3), "log start", id="a log that ends before it starts"),
        pytest.param(lambda: TopicPartition("", 0), "not a partition", id="no topic"),
        pytest.param(lambda: TopicPartition("orders", -1), "not a partition", id="no partition"),
    ],
)
def test_an_invalid_value_cannot_be_built(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_run_is_shown_with_its_map_index_only_if_mapped():
    assert str(RunKey("d", "r", "t")) == "d/r/t"
    assert str(RunKey("d", "r", "t", 0)) == "d/r/t[0]"


def test_tasks_of_one_dag_run_are_known_as_such():
    mine = RunKey("d", "r", "t", 0)
    assert all(mine.is_same_dag_run(RunKey("d", "r", *more)) for more in (("t", 0), ("t", 1), ("u",)))
    assert not mine.is_same_dag_run(RunKey("e", "r", "t", 0))
    assert not mine.is_same_dag_run(RunKey("d", "s", "t", 0))


def test_H6_partitions_sort_by_topic_then_number():
    mixed = [tp(10), tp(2), tp(0, "clicks"), tp(2, "p")]
    assert [str(where) for where in sorted(mixed)] == ["clicks[0]", "orders[2]", "orders[10]", "p[2]"]
    assert by_topic(mixed) == {"clicks": [0], "orders": [2, 10], "p": [2]}


def test_a_topic_knows_which_of_its_partitions_nobody_leads():
    described = TopicDescription("id", {2: None, 0: 1, 1: None})
    assert described.leaderless == [1, 2]
    assert ClusterDescription("c", {"orders": described}).partitions() == [tp(0), tp(1), tp(2)]
