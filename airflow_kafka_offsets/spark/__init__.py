# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a Spark job imports: the batch that it was started for, its records, and the report of what was written.
``what_if`` compares two definitions of rows.

The whole job is::

    from airflow_kafka_offsets.spark import for_each_batch

    def write(records, batch):
        folder = f"/lake/orders/kafka_batch={batch.key}"
        records.write.mode("overwrite").parquet(folder)
        return spark.read.parquet(folder)

    for_each_batch(spark, write)

This room implements docs/job-contract.md. It imports PySpark and the standard library, and nothing else of the package:
on a Spark image the wheel is installed with ``--no-deps``.

From the import on Py4J logs nothing at DEBUG: it would log everything that goes between Python and Java, and Spark's
settings hold the keys of object stores.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.batch import Batch as Batch
    from airflow_kafka_offsets.spark.comparison import what_if as what_if
    from airflow_kafka_offsets.spark.run import for_each_batch as for_each_batch
    from airflow_kafka_offsets.spark.run import read_batch as read_batch
    from airflow_kafka_offsets.spark.run import report_batch as report_batch
    from airflow_kafka_offsets.spark.sinks.contract import Sink as Sink

_PUBLIC = {
    "Batch": "batch",
    "for_each_batch": "run",
    "read_batch": "run",
    "report_batch": "run",
    "Sink": "sinks.contract",
    "what_if": "comparison",
}

__all__ = [*_PUBLIC]


def _is_not_debug(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.INFO


for _name in ("py4j.clientserver", "py4j.java_gateway"):  # a filter, because a job may set their level later
    logging.getLogger(_name).addFilter(_is_not_debug)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
