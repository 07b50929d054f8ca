"""Bad records where an earlier attempt at the split may have set them aside, and where this one writes nothing.

The DAG was changed since: it names another place, or none, or has no typed rows any more. This attempt makes a row of
such a record, or sets it aside elsewhere. So whatever the job writes, typed rows or plain ones, it replaces what is in
the old places with nothing. In a table that also fences a late driver off.
"""

from __future__ import annotations

from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from airflow_kafka_offsets.errors import LateAttempt, StoreUnavailable
from airflow_kafka_offsets.spark.job_batch import Batch
from airflow_kafka_offsets.spark.kafka_source import no_records_of_kafka
from airflow_kafka_offsets.spark.sinks.jdbc_sink import JdbcSink
from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_of
from airflow_kafka_offsets.spark.sinks.sink_contract import Sink

WRITTEN = "what the job has written"
BAD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "reason")


def other_places(batch: Batch) -> list[Sink]:
    """Where earlier attempts may have set bad records aside, and this one writes neither its rows nor bad records."""
    own = {batch.output, batch.set_aside and sink_of(batch.set_aside).output, *batch._outputs}
    places = {sink.output: sink for sink in map(sink_of, batch.earlier_set_aside)}
    return [sink for output, sink in places.items() if output not in own]


def take_back(batch: Batch) -> None:
    """Replace what lies in the other places with nothing, after the job has written.

    :raises LateAttempt: another attempt at the split has begun since.
    :raises StoreUnavailable: a place still has some.
    """
    for sink in other_places(batch):
        nothing = no_records_of_kafka(batch.scanned.sparkSession, headers=True)
        nothing = nothing.withColumn("reason", f.lit("")).select(*BAD_COLUMNS)
        batch._outputs.add(WRITTEN)
        try:
            left = set_aside(sink, nothing, batch)
        except LateAttempt:
            raise
        except Exception as error:
            error.add_note(
                f"An earlier attempt at {batch.plan.batch}, split {batch.split}, may have set bad records aside in "
                f"{sink.output}, and this one has to take them back. If it cannot write there: name the same "
                "bad_records in the DAG again until this batch is committed."
            )
            raise
        if not left.isEmpty():
            raise StoreUnavailable(
                f"Cannot take back bad records of {batch.plan.batch}, split {batch.split}",
                f"{sink.output} still has some",
                "Clear the Spark task.",
            )


def set_aside(sink: Sink, bad: DataFrame, batch: Batch) -> DataFrame:
    """Write bad records; what reads them back."""
    if isinstance(sink, JdbcSink):  # PostgreSQL has no such arrays
        bad = bad.withColumn("headers", f.to_json("headers"))
    return cast("DataFrame", sink(bad, batch))  # no words of bad records make an upsert
