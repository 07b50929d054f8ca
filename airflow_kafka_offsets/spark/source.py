# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The records of a plan: Spark's Kafka source over exactly its ranges.

Nothing here asks Kafka. Spark reads with ``failOnDataLoss=true``: a record that is gone fails the read.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.plan import Plan, Range
from airflow_kafka_offsets.spark.secrets import SETTING, client_options
from airflow_kafka_offsets.spark.sinks.columns import without_rows
from airflow_kafka_offsets.spark.store import jvm_of, major_version, settings_of

PREFIX = "spark.kafka_offsets.source."
"""Spark settings that are options of the source: ``spark.kafka_offsets.source.minPartitions``. Spark shows them."""
SERVERS, ISOLATION_LEVEL = "kafka.bootstrap.servers", "kafka.isolation.level"
MIN_TASKS, RECORDS_OF_A_TASK = "minPartitions", "maxRecordsPerPartition"
_REFUSED = re.compile("must specify all TopicPartitions|don't match what are assigned")  # Spark 3.5; 4
MANY_PARTITIONS = 1_000
"""Above it, ``assign`` is slow: Spark compares each partition with each (ConsumerStrategy.scala)."""
FEWEST, MOST = 100_000, 1_000_000
FETCHES = {"kafka.fetch.max.wait.ms": "10"}
"""Kafka's own value suits consumers that never end: a fetch at the end of a log waits half a second for more."""
COLUMNS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_OF_THE_PLAN = {
    name.lower()
    for name in (
        "assign subscribe subscribePattern startingOffsets endingOffsets startingTimestamp endingTimestamp "
        f"startingOffsetsByTimestamp endingOffsetsByTimestamp failOnDataLoss {ISOLATION_LEVEL}"
    ).split()
}


def source_options(spark: SparkSession, plan: Plan, servers: str | None) -> dict[str, str]:
    """The options of the source that do not say which records are read. Ask once: a file that was handed over is gone.

    A Spark setting ``spark.kafka_offsets.source.…`` comes before the client's properties, and these before the
    bootstrap servers of the job's arguments.

    :raises InvalidJob: no cluster is named, or a setting would change which records are read.
    """
    settings = settings_of(spark)
    given = {name.removeprefix(PREFIX): value for name, value in settings.items() if name.startswith(PREFIX)}
    if refused := sorted(name for name in given if name.lower() in _OF_THE_PLAN):
        cause = "The plan says which records are read"
        raise InvalidJob(f"Cannot use the Spark setting {PREFIX}{refused[0]}", cause, "Remove the setting")
    options = {} if servers is None else {SERVERS: servers}
    if SETTING in settings:
        options |= client_options(spark, settings[SETTING])
    options = FETCHES | _tasks(spark, plan, given) | options | given
    if SERVERS not in options:
        raise InvalidJob("Cannot read from Kafka", "No cluster is named", f"Set the Spark conf {PREFIX}{SERVERS}")
    return options | {ISOLATION_LEVEL: plan.isolation_level, "failOnDataLoss": "true"}


def read_records(
    spark: SparkSession, plan: Plan, options: Mapping[str, str], *, may_subscribe: bool = False
) -> DataFrame:
    """The records of the plan, with the columns of Spark's Kafka source. Nothing is read yet.

    :param may_subscribe: many partitions are read faster; where one is new since the plan, Spark refuses it
        (:func:`is_refused`) when the records are looked at.
    """
    if not (pieces := plan.pieces):
        has_headers = any(name.lower() == "includeheaders" and options[name].lower() == "true" for name in options)
        return without_rows(spark, COLUMNS + HEADERS * has_headers)

    def load(**which: str) -> DataFrame:
        return _load(spark, {**options, **which})

    whole = whole_topics(plan) if may_subscribe else set()
    by_topic = [r for r in plan.ranges if r.topic in whole]
    frames = [load(subscribe=",".join(sorted(whole)), **_bounds(by_topic))] if whole else []
    frames += [load(assign=_json(p), **_bounds(p)) for p in _once_each(pieces, whole)]
    return reduce(lambda one, other: one.union(other), frames)


def whole_topics(plan: Plan) -> set[str]:
    """The topics to read by ``subscribe``: if there are many partitions, those of which the plan has all, uncut."""
    if len(plan.read_ranges) <= MANY_PARTITIONS:
        return set()
    planned = Counter(r.topic for r in plan.ranges)
    whole = {r.topic for r in plan.read_ranges if planned[r.topic] == plan.partitions[r.topic]}
    return whole - {skip.topic for skip in plan.skips}


def _once_each(pieces: Iterable[Range], without: Collection[str]) -> Iterable[list[Range]]:
    """The pieces in lists that have a partition once each: the source takes no more."""
    number, lists = Counter[tuple[str, int]](), defaultdict[int, list[Range]](list)
    for piece in pieces:
        if piece.topic not in without:
            lists[number[piece[:2]]].append(piece)
            number[piece[:2]] += 1
    return lists.values()


def is_refused(error: Exception) -> bool:
    """Whether Spark refuses to read by ``subscribe``: its partitions are not those of the plan."""
    return _REFUSED.search(str(error)) is not None


def _load(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    try:
        # The source's second version shows its options in Spark's plans, and the secrets with them.
        return spark.read.format("kafka").options(**options).load()
    except AnalysisException as error:
        if "Failed to find" not in str(error):
            raise
    scala = "2.12" if major_version(spark) < 4 else "2.13"
    package = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark.version}"
    raise InvalidJob("Cannot read from Kafka", "Spark has no Kafka source", f'Give the job packages="{package}"')


def _tasks(spark: SparkSession, plan: Plan, given: Mapping[str, str]) -> dict[str, str]:
    """Cut ranges larger than an even share of the cores into several tasks, unless the job says how."""
    sizes = [r.end - r.start for r in plan.read_ranges]
    if not sizes or {name.lower() for name in given} & {MIN_TASKS.lower(), RECORDS_OF_A_TASK.lower()}:
        return {}
    cores = 1 if jvm_of(spark) is None else spark.sparkContext.defaultParallelism  # not known over Spark Connect
    most = min(max(-(-sum(sizes) // cores), FEWEST), MOST)
    if max(sizes) <= most:
        return {}
    if major_version(spark) >= 4:
        return {RECORDS_OF_A_TASK: str(most)}
    return {MIN_TASKS: str(sum(-(-size // most) for size in sizes))}


def _bounds(ranges: Iterable[Range]) -> dict[str, str]:
    bounds: dict[str, dict[str, dict[str, int]]] = {"startingOffsets": {}, "endingOffsets": {}}
    for r in ranges:
        bounds["startingOffsets"].setdefault(r.topic, {})[str(r.partition)] = r.start
        bounds["endingOffsets"].setdefault(r.topic, {})[str(r.partition)] = r.end
    return {name: json.dumps(value) for name, value in bounds.items()}


def _json(ranges: Iterable[Range]) -> str:
    partitions: dict[str, list[int]] = {}
    for r in ranges:
        partitions.setdefault(r.topic, []).append(r.partition)
    return json.dumps(partitions)
