"""Offsets come in from Kafka's and Flink's tools and go out to them, and no sentinel passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets, to_csv, to_flink, to_initial_offsets
from tests.builders import tp

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name not in (".", ".."))
OFFSETS = st.dictionaries(st.builds(tp, st.integers(0, 9), TOPICS), st.integers(0, 2**62), min_size=1, max_size=6)


@given(OFFSETS)
def test_what_is_exported_for_kafkas_tools_is_imported_again(offsets):
    assert parse_partition_offsets(to_csv(offsets)) == offsets


@given(OFFSETS)
def test_what_is_exported_for_flink_is_imported_again(offsets):
    assert parse_partition_offsets(to_flink(offsets), sorted({key.topic for key in offsets})) == offsets


@given(OFFSETS)
def test_what_is_written_for_a_query_is_imported_again(offsets):
    assert parse_partition_offsets(to_initial_offsets(offsets)) == offsets


_OF_BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1795573490863,"conf":{"spark.sql.shuffle.partitions":"200"}}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'v1\n{_OF_BATCH}\n{{"orders":{{"0":42,"1":7}}}}', id="Spark 3.5 and 4.0"),
        pytest.param(f'v2\n{_OF_BATCH}\n0:{{"orders":{{"0":42,"1":7}}}}', id="Spark 4.1, by number"),
        pytest.param(f'v2\n{_OF_BATCH}\nby_name:{{"orders":{{"0":42,"1":7}}}}\n1:-', id="Spark 4.1, by name"),
        pytest.param('v1\n\n{"orders":{"0":42,"1":7}}', id="without the batch's own line"),
        pytest.param('\0v1\n{"orders":{"0":42,"1":7}}', id="the start of a source"),
        pytest.param(
            f'v1\n{_OF_BATCH}\n{{"logOffset":3}}\n-\n17\n{{"orders":{{"0":42}}}}\n{{}}\n'
            '{"sourceVersion":1,"reservoirId":"c0ffee","reservoirVersion":4,"index":-1}\n{"orders":{"0":42,"1":7}}',
            id="among files, a rate, a Delta table, and a topic that is read twice",
        ),
        pytest.param("orders,0:42,1:7", id="Hudi Streamer"),
    ],
)
def test_the_positions_of_spark_and_hudi_are_taken_as_they_lie(text):
    assert parse_partition_offsets(text) == {tp(0): 42, tp(1): 7}


def test_flinks_string_names_topics_only_where_there_are_several():
    assert to_flink({tp(1): 300, tp(0): 42}) == "partition:0,offset:42;partition:1,offset:300"
    assert to_flink({tp(0, "b"): 7, tp(0, "a"): 1}) == "topic:a,partition:0,offset:1;topic:b,partition:0,offset:7"


def test_the_csv_of_several_groups_gives_the_lines_of_ones_own():
    text = "mine,orders,0,42\n\nothers,orders,0,7\n"
    assert parse_partition_offsets(text, group_id="mine") == {tp(0): 42}


def test_quotes_and_blanks_of_a_spreadsheet_are_taken():
    assert parse_partition_offsets('"orders", 0, 42\r\n"orders", 1, 7\r\n') == {tp(0): 42, tp(1): 7}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("orders,0", "JSON", id="not a CSV of offsets"),
        pytest.param("orders,0,1,2,3", "5 fields on line 1", id="too many fields"),
        pytest.param("orders,0,1\norders,0,2", r"orders\[0\] again on line 2", id="twice"),
        pytest.param("orders,zero,1", "whole number", id="no partition"),
        pytest.param("theirs,orders,0,1", "groups theirs, and group_id is 'mine'", id="another group's"),
        pytest.param("orders,0,-1", "'latest' in Flink and Kafka's tools", id="A9 a sentinel of Kafka"),
        pytest.param("orders,0,-915623761773", "'committed' in Flink and Kafka's tools", id="A9 a sentinel of Flink"),
        pytest.param("topic:orders,partition:0,offset:-2", "'earliest'", id="A9 a sentinel in Flink's string"),
        pytest.param(f"v3\n{_OF_BATCH}", "version v3; v1 and v2 are known", id="a later Spark"),
        pytest.param(f'v1\n{_OF_BATCH}\n{{"orders":{{"0":4', "a line that is no JSON", id="a file that is cut off"),
        pytest.param(f"v1\n{_OF_BATCH}\n17", "without a source that reads Kafka", id="no Kafka"),
        pytest.param(
            f'v1\n{_OF_BATCH}\n{{"orders":{{"0":5}}}}\n{{"orders":{{"0":7}}}}',
            r"two sources read orders\[0\], one up to 5 and one up to 7",
            id="two sources that are not equally far",
        ),
        pytest.param(f'v1\n{_OF_BATCH}\n{{"orders":{{"0":-1}}}}', "'latest' in Flink", id="A9 a sentinel of Spark"),
        pytest.param("orders,0:42,0:43", r"names orders\[0\] twice", id="Hudi's, twice"),
        pytest.param("@/lake/checkpoint", "which a resolve task or a command reads", id="a place that nobody read"),
        pytest.param("topic:,partition:0,offset:1", "expected partition:0,offset:42", id="an empty topic"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_line_and_name(text, said):
    with pytest.raises(ValueError, match=said):
        parse_partition_offsets(text, group_id="mine")


@pytest.mark.parametrize(
    "written",
    [
        pytest.param('{"orders": {"0": 1, "0": 2}}', id="JSON, of which Python takes the last"),
        pytest.param('{"orders": {"0": 1}, "orders": {"1": 2}}', id="a topic in JSON"),
        pytest.param('{"orders": {"0": 1, "00": 2}}', id="in two spellings"),
        pytest.param({"orders": {"0": 1, 0: 2}}, id="as text and as a number"),
        pytest.param("topic:orders,partition:0,offset:1;topic:orders,partition:0,offset:2", id="C13 Flink's form"),
    ],
)
def test_a_partition_that_is_named_twice_is_refused(written):
    """Which of the two was meant is a guess, and one of them skips records or reads them twice."""
    with pytest.raises(ValueError, match=r"^names .* twice$"):
        parse_partition_offsets(written)


def test_a_partition_of_another_topic_is_not_named_twice():
    assert parse_partition_offsets('{"a": {"0": 1}, "b": {"0": 1}}') == {tp(0, "a"): 1, tp(0, "b"): 1}


@pytest.mark.parametrize("depth", [10, 100_000])
def test_json_that_is_nested_for_ever_is_refused_like_any_other(depth):
    with pytest.raises(ValueError, match=r"JSON|expected"):
        parse_partition_offsets('{"a":' * depth)
