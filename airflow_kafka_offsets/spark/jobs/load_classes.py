# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A small job that loads the classes of Spark which a batch needs: its JVM archives them (``hooks/class_archive``)."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.count import count, observe


def load_classes(spark: SparkSession, folder: str) -> None:
    """Write a few typed rows into this folder, read them back and count them."""
    records = spark.range(100).selectExpr(
        "'orders' AS topic", "0 AS partition", "id AS offset", "to_json(struct(id)) AS value", "now() AS timestamp"
    )
    rows, _ = observe(records.selectExpr("*", "from_json(value, 'id BIGINT') AS row"))
    rows.write.parquet(folder)
    count(spark.read.parquet(folder))


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    load_classes(session, sys.argv[1])
    session.stop()
