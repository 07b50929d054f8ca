"""What docs/time.md says to do about timestamps out of order: read past the window's end, keep what is the window's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets import plan_offsets
from airflow_kafka_offsets.spark import Batch, for_each_batch
from airflow_kafka_offsets.spark.sinks import files
from testbed.broker import KafkaBroker
from tests.spark.conftest import Plans, require_read

START = 1_795_132_800_000  # 2026-11-20T00:00Z
MINUTE = 60_000
# Minutes after 00:00, out of order by up to ten.
WRITTEN = [5, 50, 61, 57, 55, 66, 59, 70, 118, 121, 112, 130]


def test_each_record_is_in_the_output_of_its_own_hour_and_in_no_other(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1, {"retention.ms": "-1"})
    broker.produce(name, [(0, None, b"x", START + at * MINUTE) for at in WRITTEN])
    spark.conf.set("spark.sql.session.timeZone", "UTC")

    def read_hour(hour: int) -> list[int]:
        plan = plan_offsets(
            broker.client_config,
            topics=[name],
            startup_mode="timestamp",
            startup_timestamp=START + hour * 60 * MINUTE,
            bounded_mode="timestamp",
            bounded_timestamp=START + (hour * 60 + 70) * MINUTE,
        )
        [p] = plan.partitions
        batch = plans.window({(name, 0): (p.start_offset, p.end_offset)})
        sink = files(str(tmp_path / f"hour-{hour}"))
        start, end = f"2026-11-20 0{hour}:00:00", f"2026-11-20 0{hour + 1}:00:00"

        def write(records: DataFrame, batch: Batch) -> DataFrame:
            records.persist()
            sink(records.where((F.col("timestamp") >= F.lit(start)) & (F.col("timestamp") < F.lit(end))), batch)
            return batch.scanned  # more was read than was written, on purpose

        for_each_batch(spark, write, plans.arguments(batch))
        require_read(batch)
        return sorted(row.offset for row in spark.read.parquet(sink.output).select("offset").collect())

    assert [read_hour(0), read_hour(1)] == [
        [offset for offset, at in enumerate(WRITTEN) if at < 60],
        [offset for offset, at in enumerate(WRITTEN) if 60 <= at < 120],
    ]
