"""The Spark job of ``kafka_spark_batch(merge=…)``: committed batches from the log table into the entity table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.arguments import parse
from airflow_kafka_offsets.spark.commits import reached, read_again, unmerged
from airflow_kafka_offsets.spark.decode import SETTINGS
from airflow_kafka_offsets.spark.errors import InvalidJob, LateAttempt
from airflow_kafka_offsets.spark.jobs.program import run
from airflow_kafka_offsets.spark.merge import Merge
from airflow_kafka_offsets.spark.objects import read_object
from airflow_kafka_offsets.spark.store import HadoopStore, Store

log = logging.getLogger(__name__)


def merge_batches(spark: SparkSession, argv: Sequence[str] | None = None, store: Store | None = None) -> list[str]:
    """Merge what the entity table lacks.

    :param argv: the arguments of the batch's own job; by default ``sys.argv[1:]``.
    :param store: the checkpoint location, if Spark cannot reach it.
    :returns: the keys of the batches that were merged.
    :raises InvalidJob: the job object has no merge, the rows have no such keys, or a key is in two partitions.
    :raises OtherOutput: the table is another pipeline's, or has rows of another log.
    :raises LateAttempt: a batch is being written again; the task may be retried.
    """
    arguments = parse(sys.argv[1:] if argv is None else argv)
    store = HadoopStore(spark, arguments.root) if store is None else store
    plan = read_object(store, f"{arguments.folder}/{arguments.entry}.json")
    if arguments.job is None or plan["window"] is not None:
        cause = "The arguments have no --job" if arguments.job is None else "The numbers of windows are not their order"
        raise InvalidJob("Cannot merge", cause, "Give kafka_spark_batch merge=, with a sink and without windows")
    job = read_object(store, arguments.job, arguments.job.rpartition("/")[2].removesuffix(".json"))
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    merge = Merge.of(job, plan["pipeline"].partition("/")[0])
    merge.check(spark)
    merged, pipeline = merge.merged(spark), arguments.folder.partition("/batches/")[0]
    newest_merged = reached(store, pipeline, merged, merge.table.name)
    written = merge.written(spark, merged)
    batches = unmerged(store, pipeline, plan["number"], newest_merged, written, merge.log.output)
    if not batches:
        log.info("%s has all batches up to %s.", merge.table.output, merged)
        return []
    newest = merge.newest(spark, batches)
    for batch in batches:
        if read_again(store, batch) is not batch:  # else its rows are those that were committed
            cause = "Its run began to write it again while it was read"
            raise LateAttempt(f"Cannot merge batch {batch.number}", cause, "Let that run end; then retry this task")
    merge.write(newest)
    merge.name_lost(spark, [read_again(store, batch) for batch in batches])  # it may have been merged again before
    numbers = ", ".join(str(batch.number) for batch in batches)
    log.info("%s: merged batches: %s, keys: %d.", merge.table.output, numbers, newest.count())
    return [batch.key for batch in batches]


if __name__ == "__main__":
    run(merge_batches)
