"""The partitions of a batch: found, sorted and cut into pages on the server; unknown where Kafka does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import NoPosition
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.page.kafka_look import KafkaLooks
from airflow_kafka_offsets.page.partition_page import partitions_view
from airflow_kafka_offsets.page.views import Bar, PartitionsAsked, PartitionsView
from tests.contract.pipeline import Pipeline
from tests.page.conftest import LONG_S, TOPIC, page_of, produce, run


def partitions(pipeline: Pipeline, name: str, open_cluster: Any = page_of, **asked: Any) -> PartitionsView:
    fields = {} if open_cluster is page_of else {"open_cluster": open_cluster}
    return partitions_view(page_of(pipeline, **fields), name, PartitionsAsked(**asked), KafkaLooks(LONG_S))


@pytest.fixture
def uneven(pipeline: Pipeline) -> Pipeline:
    """Two batches; and since then one record for partition 0, five for 1, three for 2."""
    produce(pipeline, 2)
    pipeline.run(run(10))
    produce(pipeline, 4)
    pipeline.run(run(11), splits=2)
    for partition, count in enumerate((1, 5, 3)):
        pipeline.cluster.produce(TopicPartition(TOPIC, partition), [pipeline.now_ms] * count)
    return pipeline


def numbers(shown: PartitionsView) -> list[object]:
    return [row["partition"] for row in shown.partitions.rows]


def test_each_partition_has_its_range_its_bar_and_what_is_left(uneven: Pipeline) -> None:
    shown = partitions(uneven, "2", order="by name")
    row = shown.partitions.rows[1]
    assert (row["start"], row["end"], row["records"], row["left"], row["position"]) == (2, 6, 4, 5, 6)
    assert (row["log_start"], row["log_end"], row["committed"], row["start_reason"]) == (0, 11, 2, "position")
    assert row["bar"] == Bar(2 / 11, 6 / 11, 6 / 11)
    assert (shown.title, shown.state, shown.not_asked) == ("batch 2", "committed", ())
    assert [line.partition(":")[0] for line in shown.splits] == ["split 0, attempt 1", "split 1, attempt 1"]
    assert len(shown.history) == 2
    assert "committed by run" in shown.history[1]


def test_of_an_older_batch_the_position_is_the_pipelines_and_not_its_own(uneven: Pipeline) -> None:
    row = partitions(uneven, "1", order="by name").partitions.rows[0]
    assert (row["start"], row["end"], row["position"], row["left"]) == (0, 2, 6, 1)
    assert row["bar"] == Bar(0.0, 2 / 7, 6 / 7)


def test_they_are_sorted_found_and_paged(uneven: Pipeline) -> None:
    assert numbers(partitions(uneven, "2")) == [1, 2, 0], "most left first"
    assert numbers(partitions(uneven, "2", order="by name")) == [0, 1, 2]
    assert numbers(partitions(uneven, "2", order="by name", find="orders[1]")) == [1]
    assert numbers(partitions(uneven, "2", order="by name", find="ORDERS-2")) == [2]
    assert numbers(partitions(uneven, "2", find="payments")) == []
    shown = partitions(uneven, "2", order="by name", size=2, page=2).partitions
    assert (shown.number, shown.pages, shown.matching, shown.total) == (2, 2, 3, 3)
    assert [row["partition"] for row in shown.rows] == [2]


def test_what_is_lost_comes_first_where_that_is_asked_for(uneven: Pipeline) -> None:
    uneven.cluster.delete_records(TopicPartition(TOPIC, 2), 8)
    uneven.run(run(12), policies={"data_loss": "advance"})
    row = partitions(uneven, "3", order="most lost first").partitions.rows[0]
    assert (row["partition"], row["lost"]) == (2, 2)


def test_without_kafka_what_only_kafka_knows_is_unknown(uneven: Pipeline) -> None:
    shown = partitions(uneven, "2", open_cluster=None, order="by name")
    row = shown.partitions.rows[0]
    assert (row["bar"], row["log_start"], row["log_end"], row["left"]) == (None, None, None, None)
    assert (row["start"], row["end"], row["position"]) == (2, 6, 6)
    assert len(shown.not_asked) == 1


@pytest.mark.parametrize("name", ["9", "0", "-1", "..", "1/../../x", "99999999999", "<script>", ""])
def test_a_batch_that_is_not_there_is_refused_by_its_name(uneven: Pipeline, name: str) -> None:
    with pytest.raises(NoPosition):
        partitions(uneven, name)
