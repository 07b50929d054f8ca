"""A driver with Iceberg: a batch of two topics, a table for each, and what the audit finds in them, as JSON."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.spark.jobs.audit_output import run
from airflow_kafka_offsets.spark.sinks import iceberg
from tests.builders import NOW, PIPELINE, planned
from tests.spark.test_audit_output import World
from tests.stores.builders import DAY, commit, read


def main(settings: str, root: str) -> None:
    spark = SparkSession.builder.appName("audit").config(map=json.loads(settings)).getOrCreate()
    world = World(spark, Path(root), written=False)
    batch = world.begin(4, [planned(0, 30, 40), planned(TopicPartition("shop.Refunds", 0), 0, 5)])
    read(batch)
    commit(batch, NOW + 4 * DAY)
    world.write(4, range(30, 39), sink=iceberg("lake.db.orders"))
    world.write(4, [*range(5), 4], topic="shop.Refunds", sink=iceberg("lake.db.shop_refunds"))
    words = ["--work-store", world.log.store.uri, "--pipeline-id", PIPELINE, "--from", str(NOW + 4 * DAY)]
    print(json.dumps(run(spark, [*words, "--sink-format", "iceberg", "--sink-table", "lake.db.{topic}"])))


main(*sys.argv[1:])
