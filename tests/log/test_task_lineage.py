"""What a task tells of lineage, as values: names, ranges, counts, and what a large plan leaves out."""

import json
from typing import Any

from airflow_kafka_offsets.log.task_lineage import MOST_RANGES, of_plan, of_topics
from airflow_kafka_offsets.log.verify_reads import Fates
from airflow_kafka_offsets.plan.plan import BatchName
from tests.builders import KEY, PIPELINE, plan, planned, tp

SERVERS = "kafka-1:9092,kafka-2:9092"
ORDERS, PAYMENTS = ("kafka://kafka-1:9092", "orders"), ("kafka://kafka-1:9092", "payments")
TWO_TOPICS = [planned(0, 5, 9, lost=2), planned(1, 7, 7), planned(tp(0, "payments"), 0, 3, skipped=4)]


def test_before_a_plan_only_the_topics_are_known() -> None:
    told = of_topics(SERVERS, ["orders", "payments"])
    assert told.inputs == {ORDERS: {}, PAYMENTS: {}}
    assert (told.outputs, told.batch) == ({}, None)


def test_a_plan_tells_the_ranges_of_each_topic_and_what_is_not_read() -> None:
    told = of_plan(plan(TWO_TOPICS, output="/lake/orders"), SERVERS)
    assert told.inputs == {
        ORDERS: {
            "kafkaOffsets_ranges": {
                "ranges": [{"partition": 0, "startOffset": 5, "endOffset": 9}],
                "rangesLeftOut": 0,
                "partitionCount": 2,
                "offsetCount": 4,
                "topicId": "id-of-orders",
                "lost": 2,
                "skipped": 0,
            }
        },
        PAYMENTS: {
            "kafkaOffsets_ranges": {
                "ranges": [{"partition": 0, "startOffset": 0, "endOffset": 3}],
                "rangesLeftOut": 0,
                "partitionCount": 1,
                "offsetCount": 3,
                "topicId": "id-of-payments",
                "lost": 0,
                "skipped": 4,
            }
        },
    }
    assert told.outputs == {}, "who plans writes nothing"
    assert told.batch is not None
    assert (told.batch["pipeline"], told.batch["batch"], told.batch["number"]) == (PIPELINE, KEY, 7)
    assert (told.batch["offsetCount"], told.batch["lost"], told.batch["skipped"]) == (7, 2, 4)
    assert not {"committed", "proof", "split", "windowStart"} & told.batch.keys(), "what is not known is absent"


def test_a_window_tells_its_bounds() -> None:
    window = plan([planned(0, 0, 1)], batch=BatchName("a-b-c"), window=True, window_bounds=(0, 3_600_000))
    batch = of_plan(window, SERVERS).batch
    assert batch is not None
    assert (batch["windowStart"], batch["windowEnd"]) == ("1970-01-01T00:00Z", "1970-01-01T01:00Z")
    assert "number" not in batch


def test_a_split_tells_its_own_pieces_only() -> None:
    made = plan([planned(0, 0, 1_000_000, lost=3)], splits=2)
    pieces = [of_plan(made, SERVERS, split=split).inputs[ORDERS]["kafkaOffsets_ranges"] for split in (0, 1)]
    assert [piece["offsetCount"] for piece in pieces] == [500_000, 500_000]
    assert [piece["ranges"][0]["startOffset"] for piece in pieces] == [0, 500_000]
    assert not any("lost" in piece for piece in pieces), "the batch has lost three records, and not each split"


def test_counts_are_those_of_the_reports_and_absent_without() -> None:
    made = plan(TWO_TOPICS, output="/lake/orders")
    fates = Fates(1, 2, {}, {"orders": (2, 1, 1), "payments": (2, 0, 1)}, columns={"/lake/orders": {"id": "bigint"}})
    told = of_plan(made, SERVERS, fates=fates, writes=True)
    assert told.inputs[ORDERS]["inputStatistics"] == {"rowCount": 4}
    assert told.inputs[PAYMENTS]["inputStatistics"] == {"rowCount": 3}
    assert told.outputs == {
        ("file", "/lake/orders"): {
            "schema": {"fields": [{"name": "id", "type": "bigint"}]},
            "outputStatistics": {"rowCount": 4},
        }
    }
    without = of_plan(made, SERVERS, writes=True)
    assert without.outputs == {("file", "/lake/orders"): {}}
    assert without.inputs[ORDERS].keys() == {"kafkaOffsets_ranges"}


def test_each_topic_has_its_own_output_and_bad_records_theirs() -> None:
    made = plan(TWO_TOPICS, output="delta:lake.{topic}")
    columns = {"delta:lake.orders": {"id": "bigint"}, "/lake/bad": {"reason": "string"}}
    fates = Fates(3, 0, {}, {"orders": (2, 2, 0), "payments": (2, 1, 0)}, columns=columns)
    outputs = of_plan(made, SERVERS, fates=fates, writes=True).outputs
    rows = {name: facets["outputStatistics"]["rowCount"] for name, facets in outputs.items()}
    assert rows == {("delta", "lake.orders"): 2, ("delta", "lake.payments"): 2, ("file", "/lake/bad"): 3}
    assert "schema" not in outputs["delta", "lake.payments"]


def test_a_topic_that_a_split_does_not_read_has_no_rows_of_it_though_its_table_was_emptied() -> None:
    made = plan([planned(0, 0, 1_000_000), planned(tp(0, "payments"), 0, 2_000_000)], output="lake.{topic}", splits=3)
    columns = {f"lake.{topic}": {"id": "bigint"} for topic in ("orders", "payments")}
    split = next(n for n, pieces in enumerate(made.splits) if {p.topic_partition.topic for p in pieces} == {"payments"})
    fates = Fates(5, 0, {}, {"payments": (7, 5, 0)}, columns=columns)
    outputs = of_plan(made, SERVERS, split=split, fates=fates, writes=True).outputs
    rows = {name: facets["outputStatistics"]["rowCount"] for (_, name), facets in outputs.items()}
    assert rows == {"lake.payments": 7, "lake.orders": 0}


def test_of_a_large_plan_ranges_are_left_out_and_no_sum_changes() -> None:
    topics, each = 100, 200
    partitions = [planned(tp(n, f"topic-{t:03}"), 0, 1_000_000_000_000) for t in range(topics) for n in range(each)]
    told = of_plan(plan(partitions, output="/lake/orders"), SERVERS, writes=True)
    found: list[dict[str, Any]] = [dict(facets["kafkaOffsets_ranges"]) for facets in told.inputs.values()]
    assert sum(len(facet["ranges"]) for facet in found) == MOST_RANGES
    assert sum(facet["rangesLeftOut"] for facet in found) == topics * each - MOST_RANGES
    assert [facet["partitionCount"] for facet in found] == [each] * topics
    assert sum(facet["offsetCount"] for facet in found) == 1_000_000_000_000 * topics * each
    assert len(json.dumps(found)) < 64 * 1024
