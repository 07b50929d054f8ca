"""A plan's per-partition half is written and read back as it was."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.plan.body import (
    Decision,
    Offset,
    PlanBody,
    PlannedRange,
    Stretch,
    body_from_dict,
    body_to_dict,
)
from airflow_kafka_offsets.store.objects import decode, encode

offset = st.integers(0, 2**62 - 1)
partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
epochs = st.none() | st.integers(0, 9)
offsets = st.dictionaries(partitions, st.builds(Offset, offset, epochs, st.sampled_from([None, "x", "y"])))
ranges = st.dictionaries(
    partitions,
    st.builds(
        lambda start, size, epoch, end: PlannedRange(start, start + size, epoch, end),
        offset,
        offset,
        epochs,
        st.none() | offset,
    ),
)
bodies = st.builds(
    PlanBody,
    ranges=ranges,
    resume_from=offsets,
    skips=st.dictionaries(
        partitions, st.lists(st.builds(lambda o: OffsetRange(o, o + 1), offset), min_size=1).map(tuple)
    ),
    decisions=st.lists(
        st.builds(
            Decision, partitions, offset, st.none() | offset,
            st.sampled_from(["lost", "skipped", "again", "hidden"]), st.text(),
        )
    ).map(lambda found: tuple(sorted(found, key=lambda d: d.partition.topic))),
    covered=st.lists(st.builds(Stretch, offset, offset, offsets, offsets), max_size=2).map(tuple),
)  # fmt: skip


@given(bodies)
def test_a_body_is_read_back_as_it_was_written(body: PlanBody) -> None:
    data = encode(body_to_dict(body))
    assert body_from_dict(decode(data)) == body
    assert read_json(data)["version"] == 1


def test_the_position_after_a_plan_keeps_what_it_did_not_read() -> None:
    read, other = TopicPartition("a", 0), TopicPartition("b", 0)
    body = PlanBody({read: PlannedRange(3, 7, 2)}, {read: Offset(3), other: Offset(9, 1, "id")})
    assert body.position_after({"a": "new"}) == {read: Offset(7, 2, "new"), other: Offset(9, 1, "id")}


def test_a_topic_whose_id_is_not_known_any_more_keeps_it_in_the_position() -> None:
    known, new = TopicPartition("a", 0), TopicPartition("a", 1)
    body = PlanBody({known: PlannedRange(7, 7), new: PlannedRange(0, 1)}, {known: Offset(3, None, "old")})
    assert body.position_after({}) == {known: Offset(7, None, "old"), new: Offset(1)}
