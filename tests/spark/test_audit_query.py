"""The query that ``audit --sql`` prints, run by Spark: what an output lacks or has too much of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.cli.call import World
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.log.reports import Counts
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, produce, tp, whole_counts

Rows = Sequence[tuple[str, str, int, int]]


def test_the_query_finds_what_the_output_lacks_or_has_too_much_of(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 3)
    pipeline = Pipeline(cluster)
    world = World(lambda _: cluster, lambda _: pipeline.store, lambda: cluster.now_ms)

    def answer(rows: Rows) -> list[tuple[object, ...]]:
        columns = "kafka_batch string, topic string, partition int, offset long"
        spark.createDataFrame(rows, columns).createOrReplaceTempView("orders_output")
        return [tuple(row) for row in spark.sql(query).collect()]

    produce(cluster, 0, 10)
    work = pipeline.work()
    counts = whole_counts(work) | {tp(0): Counts(8, 1, 1, 10, 0, 0, 9)}  # one bad, one filtered
    pipeline.report(work, pipeline.begin(work), counts)
    pipeline.commit(work)
    first, strange = work.key, "0000000009-20200101T000000-aaaa"
    produce(cluster, 0, 5)
    produce(cluster, 1, 5)
    pipeline.work("two")
    skip = ["skip", "orders", "orders-1:2", "--execute", "--bootstrap-servers", "memory"]
    assert main(skip, world) == 0
    work = pipeline.work("two")
    pipeline.drive(work)
    pipeline.commit(work)
    produce(cluster, 0, 5)
    unfinished = pipeline.work().key
    capsys.readouterr()
    assert main(["audit", "orders", "--sql", "orders_output"], world) == 0
    query = capsys.readouterr().out.strip().rstrip(";")

    whole = [(first, "orders", 0, offset) for offset in range(8)]
    whole += [(work.key, "orders", 0, offset) for offset in range(10, 15)]
    whole += [(work.key, "orders", 1, offset) for offset in (0, 1, 3, 4)]
    not_looked_at = [("0000000000-20200101T000000-aaaa", "orders", 0, 3), (unfinished, "orders", 0, 15)]
    wrong = [(first, "orders", 0, 5), (work.key, "orders", 1, 2), (strange, "orders", 2, 0)]
    assert answer([*whole, *not_looked_at]) == []
    assert answer([*whole[1:], *wrong]) == [
        ("missing", first, "orders", 0, 1),
        ("of no batch", work.key, "orders", 1, 1),
        ("of no batch", strange, "orders", 2, 1),
        ("there twice", first, "orders", 0, 1),
    ]
