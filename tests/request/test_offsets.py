"""Offsets come in from Spark's and Flink's forms, and no sentinel passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import TopicPartition, values_by_topic
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp, parse_bound, parse_offsets

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name not in (".", ".."))
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 9))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**62), min_size=1, max_size=6)


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


@given(OFFSETS)
def test_what_is_written_for_flink_and_for_spark_is_read_again(offsets):
    entries = [f"topic:{tp.topic},partition:{tp.partition},offset:{offset}" for tp, offset in offsets.items()]
    assert parse_offsets(";".join(entries)) == offsets
    assert parse_offsets(values_by_topic(offsets)) == offsets


_OF_BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1795573490863,"conf":{"spark.sql.shuffle.partitions":"200"}}'


@pytest.mark.parametrize(
    "written",
    [
        pytest.param({"orders": {"0": 42, 1: 7}}, id="a mapping"),
        pytest.param(' {"orders": {"0": 42, "1": "7"}}', id="JSON"),
        pytest.param("partition:0,offset:42;partition:1,offset:7", id="C13 Flink's text"),
        pytest.param("partition:0,offset:42;topic:orders,partition:1,offset:7;", id="C13 a final semicolon"),
        pytest.param(f'v1\n{_OF_BATCH}\n{{"orders":{{"0":42,"1":7}}}}', id="Spark 3.5 and 4.0"),
        pytest.param(f'v2\n{_OF_BATCH}\n0:{{"orders":{{"0":42,"1":7}}}}', id="Spark 4.1, by number"),
        pytest.param(f'v2\n{_OF_BATCH}\nby_name:{{"orders":{{"0":42,"1":7}}}}\n1:-', id="Spark 4.1, by name"),
        pytest.param('\0v1\n{"orders":{"0":42,"1":7}}', id="the start of a source"),
        pytest.param(
            f'v1\n{_OF_BATCH}\n{{"logOffset":3}}\n-\n17\n{{"orders":{{"0":42}}}}\n{{}}\n'
            '{"sourceVersion":1,"reservoirId":"c0ffee","reservoirVersion":4,"index":-1}\n{"orders":{"0":42,"1":7}}',
            id="among files, a rate, a Delta table, and a topic that is read twice",
        ),
    ],
)
def test_offsets_are_read_in_the_forms_that_people_have(written):
    assert parse_offsets(written, ("orders",)) == {tp(0): 42, tp(1): 7}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ([], 'is []; expected {"orders": {"0": 42}}'),
        ("", "is not JSON"),
        ("[0]", 'is [0]; expected {"orders": {"0": 42}}'),
        ("@/lake/checkpoint", "is not JSON"),
        ({"orders": 42}, "has 42 for topic 'orders'"),
        ({"orders": {"x": 42}}, "has partition 'x' of topic orders, which is not a whole number"),
        ({"orders": {"0": "x"}}, "has offset 'x' for orders-0, which is not a whole number"),
        ({"orders": {"0": None}}, "has offset None for orders-0"),
        ({"orders": {"0": 4.5}}, "has offset 4.5 for orders-0"),
        ({"orders": {"0": True}}, "has offset True for orders-0"),
        ({"orders": {"0": 2**63}}, "has more than 64 bits"),
        ({"orders": {"-1": 0}}, "has partition -1 of topic orders; partitions are 0 to"),
        ({"orders": {2**31: 0}}, "partitions are 0 to 2147483647"),
        ({2026: {"0": 1}}, "has topic 2026, which is not text; put the name in quotes"),
        ({"a b": {"0": 1}}, "has topic 'a b'; topic names have letters"),
        ({"..": {"0": 1}}, "has topic '..'; topic names have letters"),
        ({"orders\n": {"0": 1}}, r"has topic 'orders\n'; topic names have letters"),
        ('{"orders": {"0": 1, "0": 2}}', "names '0' twice"),
        ('{"orders": {"0": 1, "00": 2}}', "names orders-0 twice"),
        ({"orders": {"0": 1, 0: 2}}, "names orders-0 twice"),
        ("partition:0,offset:1;partition:0,offset:2", "names orders-0 twice"),
        ("partition:0", "expected partition:0,offset:42"),
        ("partition:0, offset:1", "expected partition:0,offset:42"),
        ("partition:0,offset:x", "expected partition:0,offset:42"),
        ("topic:,partition:0,offset:1", "expected partition:0,offset:42"),
        (f"v3\n{_OF_BATCH}", "version v3; v1 and v2 are known"),
        (f'v1\n{_OF_BATCH}\n{{"orders":{{"0":4', "a line that is not JSON"),
        (f"v1\n{_OF_BATCH}\n17", "without a source that reads Kafka"),
        ('v1\n{"orders":{"0":5}}\n{"orders":{"0":7}}', "two sources read orders-0, up to 5 and up to 7"),
        ('{"a":' * 100_000, "is not JSON (it is nested too deep)"),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_offsets_that_cannot_be_meant_are_refused_by_partition(written, said):
    with pytest.raises(ValueError, match=r"^(is|has|names) ") as refused:
        parse_offsets(written, ("orders",))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        (-1, "latest"),
        (-2, "earliest"),
        (-3, "committed"),
        ("-2", "earliest"),
        (-915623761773, "committed"),
        (-915623761774, "latest"),
        (-915623761775, "earliest"),
        (-915623761776, "not set"),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        lambda offset: {"orders": {"0": offset}},
        lambda offset: f"partition:0,offset:{offset}",
        lambda offset: f'v1\n{{"orders":{{"0":{offset}}}}}',
    ],
)
def test_A9_C10_a_sentinel_is_refused_by_name(form, offset, name):
    with pytest.raises(ValueError, match=f"offset {offset} for orders-0; negative numbers are sentinels .'{name}' in"):
        parse_offsets(form(offset), ("orders",))


def test_M8_the_text_of_several_topics_has_to_name_them():
    text = "topic:orders,partition:0,offset:42;topic:clicks,partition:0,offset:7"
    assert parse_offsets(text, ("orders", "clicks")) == {tp(0): 42, tp(0, "clicks"): 7}
    with pytest.raises(ValueError, match="names no topic; write topic:orders,partition:0,offset:42"):
        parse_offsets("partition:0,offset:42", ("orders", "clicks"))


@pytest.mark.parametrize(
    ("text", "otherwise", "value"),
    [
        ("earliest", None, "earliest"),
        ("latest", None, "latest"),
        ("group-offsets", "latest", GroupOffsets(otherwise="latest")),
        ("timestamp:2026-11-20T10:00:00Z", None, Timestamp("2026-11-20T10:00:00Z")),
        ("offsets:partition:0,offset:42", None, SpecificOffsets("partition:0,offset:42")),
        ('offsets:{"orders": {"0": 42}}', "earliest", SpecificOffsets('{"orders": {"0": 42}}', "earliest")),
        ("@saved.json", None, SpecificOffsets("content of saved.json")),
    ],
)
def test_the_command_line_writes_the_same_values(text, otherwise, value):
    assert parse_bound(text, otherwise, "content of {}".format) == value


@pytest.mark.parametrize("text", ["", "current", "timestamp:", "offsets:", "group-offsets:g", "Earliest"])
def test_another_word_on_the_command_line_is_refused_with_all_of_them(text):
    with pytest.raises(ValueError, match="give earliest, latest, group-offsets, timestamp:"):
        parse_bound(text, None, str)


def test_otherwise_goes_with_offsets_only():
    with pytest.raises(ValueError, match="otherwise goes with group-offsets and offsets only"):
        parse_bound("earliest", "latest", str)
