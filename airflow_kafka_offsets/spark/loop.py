"""The whole job: read the batch, hand it to ``write``, report what was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest, UnknownOutput
from airflow_kafka_offsets.offsets.batch.key import number_of
from airflow_kafka_offsets.offsets.plan.splits import splits_to_start
from airflow_kafka_offsets.spark.batch import Batch, planned_batch
from airflow_kafka_offsets.spark.report import report_batch
from airflow_kafka_offsets.spark.source import read_batch
from airflow_kafka_offsets.stores.reads import attempt_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Written = DataFrame | Sequence[DataFrame] | None
    Write = Callable[[DataFrame, Any], Written]


def for_each_batch(spark: SparkSession, write: Write, argv: Sequence[str] | None = None, **options: Any) -> Batch:
    """Do the batch that this job was started for.

    :param write: ``write(records, batch)``; a sink of ``spark.sinks``, or a function like Structured Streaming's
        ``foreachBatch`` one. It returns the frame that reads back what it wrote, with the source's columns ``topic``,
        ``partition`` and ``offset``; several for several sinks; ``batch.scanned`` or nothing where the result has no
        offsets: then the report counts what Spark scanned (``records.persist()`` first, or Kafka is read twice).
    :param argv: the job's arguments, by default ``sys.argv[1:]``.
    :param options: further options of Spark's Kafka source; see :func:`read_batch`.
    :raises UnknownOutput: the output holds batches that the log does not know; nothing was written.
    :raises InvalidRequest: the sink writes another output than the resolve task was told.
    """
    batch = planned_batch(argv)
    _agree_on_output(batch, write)
    refuse_unknown_output(spark, batch, write)
    written = write(read_batch(spark, batch, **options), batch)
    report_batch(batch, *([written] if written is None or hasattr(written, "columns") else written))
    return batch


def _agree_on_output(batch: Batch, write: Any) -> None:
    writes = getattr(write, "output", None)
    if writes is None:
        return
    if batch.plan.output is not None and batch.plan.output != writes:
        raise InvalidRequest(
            [
                f"This job writes {writes}, and the resolve task was told output={batch.plan.output!r}: name the same, "
                "so that no other pipeline is given it."
            ]
        )
    batch.output = writes


def refuse_unknown_output(spark: SparkSession, batch: Batch, write: Any) -> None:
    """The driver of the first split looks which batches the output holds, where the sink can tell.

    What a lost log had written and not committed would stay beside its re-read. The log's own batches have numbers up
    to the one that this batch goes on from; its own key is its own.

    :raises UnknownOutput: naming the keys that nobody knows.
    """
    if not hasattr(write, "keys") or batch.split != splits_to_start(batch.plan)[0]:
        return
    name = batch.plan.batch
    assert name is not None  # a stored plan has one
    if name.number is None:
        folder = batch.plan_object.rpartition("/")[0]
        first = batch.plan_object.endswith("/1.json") and not attempt_numbers(batch.store, folder, batch.split)
        unknown = [key for key in write.keys(spark) if first and key == name.key]
    else:
        unknown = [key for key in write.keys(spark) if key != name.key and number_of(key) > number_of(name.after)]
    if unknown:
        raise UnknownOutput(str(batch.output), str(name), sorted(unknown))
