"""What a subscription finds, against what was asked for and against what there was before."""

import pytest

from airflow_kafka_offsets.errors import TopicVanished
from airflow_kafka_offsets.kafka_values import TopicDescription
from airflow_kafka_offsets.plan.missing_topics import compare_topics, missing_for, new_since
from airflow_kafka_offsets.request.policies import DEFAULTS, Policies
from airflow_kafka_offsets.request.subscription import PartitionSet, TopicList, TopicPattern
from tests.builders import position, request, tp


def topics(**leaders):
    """``orders=[1, None]``: two partitions, the second without a leader."""
    return {name: TopicDescription(f"id-of-{name}", dict(enumerate(found))) for name, found in leaders.items()}


@pytest.mark.parametrize(
    ("subscription", "found", "minimum", "missing"),
    [
        pytest.param(TopicList(("orders",)), topics(orders=[1]), 1, [], id="it is there"),
        pytest.param(
            TopicList(("orders", "clicks")),
            topics(orders=[1]),
            1,
            ["topic clicks does not exist"],
            id="one does not exist",
        ),
        pytest.param(
            TopicList(("orders",)), topics(orders=[1, 1]), 3, ["orders has 2 of 3 partitions"], id="too few partitions"
        ),
        pytest.param(TopicList(("orders",)), topics(orders=[1, None]), 1, ["orders[1] has no leader"], id="no leader"),
        pytest.param(
            TopicPattern("o.*"),
            {},
            1,
            ["no topic that this client may describe matches 'o.*'"],
            id="a pattern that finds nothing",
        ),
        pytest.param(TopicPattern("o.*"), topics(orders=[1], other=[1]), 1, [], id="a pattern that finds some"),
        pytest.param(
            PartitionSet((tp(0), tp(2), tp(0, "clicks"))),
            topics(orders=[1, 1]),
            1,
            ["clicks[0] does not exist", "orders[2] does not exist"],
            id="partitions",
        ),
        pytest.param(PartitionSet((tp(0),)), topics(orders=[1]), 9, [], id="of partitions no number is too small"),
    ],
)
def test_what_is_not_there_yet_is_named(subscription, found, minimum, missing):
    assert missing_for(subscription, found, minimum) == missing


@pytest.mark.parametrize(
    ("policies", "missing"),
    [
        (Policies(), ["orders[1] has no leader", "orders[2] has no leader"]),
        (Policies(hold=frozenset({tp(1)})), ["orders[2] has no leader"]),
        (Policies(answers={**DEFAULTS, "unavailable": "hold"}), []),
    ],
    ids=["fail", "by order", "hold"],
)
def test_F13_F14_what_may_be_held_is_not_waited_for(policies, missing):
    found = topics(orders=[1, None, None])
    assert missing_for(TopicList(("orders",)), found, 1, policies.may_hold) == missing


def test_the_partitions_that_a_position_does_not_hold_are_new():
    held = position({0: 5, tp(0, "gone"): 3})
    assert new_since(held, {"orders": [0, 2, 1], "clicks": [0]}) == {"clicks": [0], "orders": [1, 2]}
    assert new_since(held, {"orders": [0]}) == {}


PATTERN = TopicPattern("orders.*")


def compare(subscription, held, **policies):
    return compare_topics(request(subscription=subscription, **policies), topics(orders=[1]), held)


def test_without_a_position_nothing_can_have_vanished():
    assert compare(PATTERN, None) == ((), [])


def test_G5_a_topic_that_a_pattern_matched_and_finds_no_more_is_refused():
    """Deleted, or the right to describe it was taken away: the two look the same."""
    with pytest.raises(TopicVanished, match=r"orders-eu: the pipeline has read it") as refused:
        compare(PATTERN, position({0: 5, tp(0, "orders-eu"): 3}))
    assert 'policies={"topic_vanished": "drop"}' in refused.value.remedy


def test_G5_a_person_may_let_it_go_and_its_offsets_are_kept():
    held = position({0: 5, tp(0, "orders-eu"): 3})
    vanished, [warning] = compare(PATTERN, held, topic_vanished="drop")
    assert vanished == ("orders-eu",)
    assert "orders-eu are not matched any more; their offsets stay saved" in warning


@pytest.mark.parametrize("subscription", [TopicList(("orders",)), TopicPattern("orders"), PartitionSet((tp(0),))])
def test_F5_a_topic_that_is_no_longer_subscribed_to_has_not_vanished(subscription):
    vanished, [warning] = compare(subscription, position({0: 5, tp(0, "clicks"): 3}))
    assert vanished == ()
    assert "clicks, no longer subscribed to: they are saved" in warning


def test_F5_where_what_is_not_subscribed_to_is_read_on_there_is_nothing_to_say():
    held = position({0: 5, tp(0, "clicks"): 3})
    assert compare(TopicList(("orders",)), held, filter_restored_partitions=False) == ((), [])
