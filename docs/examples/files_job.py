"""A job that writes each batch as a folder of Parquet files: ``<output>/kafka_batch=<key>/``. Copy it, and change it.

A batch is written out of sight, in ``<output>/_staged/``, and then renamed to its place. Readers of the whole output
see ``kafka_batch`` as a column; a folder whose name begins with ``_`` is hidden from them.

What it cannot promise, and a table can (``sink=Delta("/lake/orders")``):

- A batch that is written again is not there between the removal of its old folder and the rename. A driver that is
  killed in between leaves it so, until the next attempt.
- Where the file system copies instead of renaming (object stores), readers see a part of a batch while it is copied.
- Nothing fences a late driver: one that hangs between its last look and the rename, while the batch is planned again,
  puts the rows of the old plan into a committed batch when it wakes up.

::

    kafka_spark_batch(
        "orders",
        topics=["orders"],
        start="earliest",
        application="files_job.py",
        spark={"application_args": ["--output", "/lake/orders"]},
    )
"""

from argparse import ArgumentParser

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Batch, Sink, for_each_batch


class BatchFolders(Sink):
    """A folder that has a folder for each batch of a pipeline."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")
        self.output = f"files:{self.path}"

    def write(self, batch: Batch, rows: DataFrame) -> DataFrame:
        staged, place = f"{self.path}/_staged/{batch.key}-{batch.attempt}", f"{self.path}/kafka_batch={batch.key}"
        rows.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value").write.parquet(staged)
        new, old = (batch.spark.sparkContext._jvm.org.apache.hadoop.fs.Path(folder) for folder in (staged, place))
        files = new.getFileSystem(batch.spark.sparkContext._jsc.hadoopConfiguration())
        batch.look()
        files.delete(old, True)
        if not files.rename(new, old):
            raise RuntimeError(f"{staged} could not be renamed to {place}")
        return batch.spark.read.schema("topic STRING, partition INT, offset BIGINT").parquet(place)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--output", required=True)
    own, _ = parser.parse_known_args()
    session = SparkSession.builder.getOrCreate()
    for_each_batch(session, BatchFolders(own.output))
    session.stop()
