"""The Spark job that reads an output and compares it with the log: are all records there, once?

::

    spark-submit audit_output.py --work-store s3://lake/offsets --from 2026-11-20 --to 2026-11-21
        --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --sink-format delta --sink-table lake.orders

``--sink-…`` are the words of the DAG's sink. It writes nothing. It prints one line of JSON, and ends with status 1
where rows are missing, there twice, or of no batch.
"""

import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.request.times import parse_timestamp_ms
from airflow_kafka_offsets.spark.hadoop_store import open_driver_store
from airflow_kafka_offsets.spark.sinks.sink_arguments import words_of_arguments
from airflow_kafka_offsets.spark.whole_output import OutputAudit, audit_output

_REQUIRED, _TIMES = ("--work-store", "--pipeline-id"), ("--from", "--to")


def run(spark: SparkSession, argv: Sequence[str]) -> dict[str, Any]:
    """What the job prints.

    :raises InvalidRequest: arguments are missing or wrong.
    """
    given = {name: value for name, value in pairwise(argv) if name in (*_REQUIRED, *_TIMES)}
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        raise InvalidRequest([f"The job has no {', '.join(missing)}. Give both, and the words of the sink."])
    times = {name.strip("-"): _time(name, given.get(name)) for name in _TIMES}
    pipeline = PipelineLog(open_driver_store(given["--work-store"], spark), given["--pipeline-id"])
    found = audit_output(spark, pipeline, words_of_arguments(argv), times["from"], times["to"])
    return {"version": 1, "pipeline_id": pipeline.pipeline_id, **times, **_as_json(found)}


def _as_json(found: OutputAudit) -> dict[str, Any]:
    wrong = sum(one.is_wrong for one in found.findings)
    return {
        "batches": found.batches,
        "rows": found.rows,
        "wrong": wrong,
        "findings": [one.to_dict() for one in found.findings],
    }


def _time(name: str, value: str | None) -> int | None:
    try:
        return None if value is None else parse_timestamp_ms(value, now_ms=now_ms())
    except ValueError as error:
        raise InvalidRequest([f"{name} {error}."]) from None


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    found = run(spark, sys.argv[1:])
    spark.stop()
    print(json.dumps(found))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
