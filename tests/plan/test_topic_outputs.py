"""The names of outputs where each topic has one."""

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.topic_outputs import of_topic, outputs_of

LAKE = "delta:lake.{topic}"


def test_a_topics_name_is_one_part_of_a_table_s_name() -> None:
    assert of_topic(LAKE, "Shop.Orders-v2") == "delta:lake.shop_orders_v2"
    assert of_topic("/lake/orders", "Shop.Orders-v2") == "/lake/orders"


def test_a_batch_writes_the_outputs_of_its_topics_and_that_of_bad_records() -> None:
    assert outputs_of(LAKE, {"b", "a"}, "delta:lake.bad") == ["delta:lake.a", "delta:lake.b", "delta:lake.bad"]
    assert outputs_of("/lake/all", {"b", "a"}) == ["/lake/all"]
    assert outputs_of(None, {"a"}, "/lake/bad") == ["/lake/bad"]


@pytest.mark.parametrize("other", ["a_b", "A.b", "a-b"])
def test_two_topics_with_one_output_are_refused(other: str) -> None:
    with pytest.raises(InvalidRequest, match=r"have one output, delta:lake\.a_b: each would replace the other's rows"):
        outputs_of(LAKE, {"a.b", other, "c"})


def test_a_topic_with_the_output_of_bad_records_is_refused_and_all_problems_are_said_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        outputs_of(LAKE, {"x", "X", "bad"}, "delta:lake.bad")
    assert len(refused.value.problems) == 2
    assert "The topic bad has the output delta:lake.bad, which bad_records names" in refused.value.problems[1]
