# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The Spark job of ``kafka_spark_batch(sink=…)``: the records of a batch into the sink that its job object names."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import InvalidJob, OtherOutput
from airflow_kafka_offsets.spark.jobs.program import run
from airflow_kafka_offsets.spark.run import open_work, write_work
from airflow_kafka_offsets.spark.sinks import entity_table, sink_of
from airflow_kafka_offsets.spark.store import Store


def write_batch(spark: SparkSession, argv: Sequence[str] | None = None, store: Store | None = None) -> Batch | None:
    """Parameters and errors are those of :func:`~airflow_kafka_offsets.spark.run.for_each_batch`.

    :raises InvalidJob: the arguments have no ``--job``.
    :raises OtherOutput: also of the entity table.
    """
    work = open_work(spark, argv, store)
    if work.job is None:
        remedy = "Give kafka_spark_batch a sink, or run an application of your own"
        raise InvalidJob("Cannot write the batch", "The arguments have no --job", remedy)
    sink = sink_of(work.job)
    if (merge := work.job.get("merge")) is not None:  # a table to adopt: its keys are before this batch's
        try:
            entity_table(merge).check(spark, work.plan)
        except OtherOutput:
            sink.check(spark, work.plan)  # its refusal says which rows are read again
            raise
    return write_work(work, sink)


if __name__ == "__main__":
    run(write_batch)
