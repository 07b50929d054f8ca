# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a task reads and writes, as OpenLineage's datasets. Only Airflow's OpenLineage provider leads here.

Datasets have the names of OpenLineage's naming standard, which are those of its listener inside of Spark, too. The
ranges of a topic are one facet, whose JSON schema is in ``facets/``; rows are OpenLineage's own statistics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    OutputDatasetFacet,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
)

from airflow_kafka_offsets.engine.work import PlanReference
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import grouped
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import Report
from airflow_kafka_offsets.plan.body import PlanBody

MOST_RANGES = 500
"""In one event, of all topics. Each has some 60 bytes."""
RANGES = "kafkaOffsets_ranges"
SCHEMA = "urn:airflow-kafka-offsets:facets:2-0-0:KafkaOffsetsRangesInputDatasetFacet.json"
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
_BUCKETS = {"s3", "gs", "abfss"}  # whose keys do not begin with a slash


@attr.define(kw_only=True)
class KafkaOffsetsRangesInputDatasetFacet(InputDatasetFacet):
    """Which offsets of a topic a batch reads.

    :ivar ranges: ``{"partition": 0, "startOffset": 5, "endOffset": 9}``, ends exclusive; without empty ones.
    :ivar rangesOmitted: how many more there are than an event lists.
    :ivar offsets: of all ranges: an upper bound of records.
    """

    pipeline: str
    batch: str
    clusterId: str
    topicId: str | None
    ranges: list[dict[str, int]]
    rangesOmitted: int
    offsets: int

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA}#/$defs/KafkaOffsetsRangesInputDatasetFacet"


def lineage_of(
    given: PlanReference, log: PipelineLog, servers: str, *, writes: bool, is_over: bool
) -> OperatorLineage[Any, Any]:  # fmt: skip
    """
    :param servers: the brokers that the batch is read from.
    :param writes: whether the outputs belong to the task: they do not where it only plans.
    :param is_over: whether a report counts: an earlier attempt's does not before.
    """
    batch = log.batch(given.batch)
    if batch is None or batch.plan.key != given.key:
        return OperatorLineage()
    report = _report(log, batch) if is_over else None
    body = PlanBody() if batch.is_cleaned else log.body(batch)
    job = _job(log, given.job)
    output = (report.output if report else None) or (job["output"] if job else None) or batch.output
    facets: dict[str, OutputDatasetFacet] = {}
    if report is not None:
        facets["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=report.total("rows")
        )
    outputs = [OutputDataset(*dataset_of(output), outputFacets=facets)] if writes and output else []
    return OperatorLineage(inputs=_inputs(batch, body, servers, report), outputs=outputs)


def lineage_of_merge(log: PipelineLog, job: str | None) -> OperatorLineage[Any, Any]:
    """The sink's table is read, and the entity table is written.

    :param job: the digest of the job object.
    """
    found = _job(log, job)
    if found is None:
        return OperatorLineage()
    table = found["merge"]["sink"]
    entities = f"{table['format']}:{table['path'] or table['table']}"
    return OperatorLineage(
        inputs=[InputDataset(*dataset_of(found["output"]))], outputs=[OutputDataset(*dataset_of(entities))]
    )


def _report(log: PipelineLog, batch: Batch) -> Report | None:
    reports = (log.report(batch, attempt) for attempt in batch.attempts[-1:] if attempt.is_reported)
    return next((report for report in reports if report.plan_id == batch.plan.plan_id), None)


def _job(log: PipelineLog, digest: str | None) -> Mapping[str, Any] | None:
    data = log.store.get(f"{log.root}/jobs/{digest}.json") if digest else None
    job: Mapping[str, Any] | None = None if data is None else read_json(data)
    return job


def _inputs(batch: Batch, body: PlanBody, servers: str, report: Report | None) -> list[InputDataset]:
    left = MOST_RANGES
    inputs: list[InputDataset] = []
    for topic, of_topic in grouped((tp.topic, tp) for tp in sorted(body.ranges)).items():
        ranges = [(tp.partition, body.ranges[tp]) for tp in of_topic if body.ranges[tp].start < body.ranges[tp].end]
        listed, left = ranges[:left], max(0, left - len(ranges))
        facets: dict[str, InputDatasetFacet] = {
            RANGES: KafkaOffsetsRangesInputDatasetFacet(
                pipeline=batch.plan.pipeline,
                batch=batch.plan.key,
                clusterId=batch.plan.cluster_id,
                topicId=batch.plan.topic_ids.get(topic),
                ranges=[{"partition": p, "startOffset": r.start, "endOffset": r.end} for p, r in listed],
                rangesOmitted=len(ranges) - len(listed),
                offsets=sum(map(body.planned, of_topic)),
            )
        }
        if report is not None:
            counts = (c for tp, c in report.counts.items() if tp.topic == topic)
            records = sum(c.rows + c.bad + c.filtered for c in counts)
            facets["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                rowCount=records
            )
        inputs.append(InputDataset(kafka_namespace(servers), topic, inputFacets=facets))
    return inputs


def kafka_namespace(servers: str) -> str:
    """``kafka://host:port``, of the first server."""
    first = servers.split(",")[0].strip().rpartition("://")[2]
    return f"kafka://{first}" if re.search(r":\d+$", first) else f"kafka://{first}:9092"


def dataset_of(output: str) -> tuple[str, str]:
    """Namespace and name of an output as reports name it, without a password.

    ``delta:/lake/orders`` is ``file``, ``/lake/orders``; ``delta:s3a://lake/orders`` is ``s3://lake``, ``orders``. A
    table is known by its catalog's name alone: ``delta:lake.orders`` is ``delta``, ``lake.orders``.
    """
    kind, _, place = output.rpartition(":") if "/" not in output else output.partition(":")
    scheme, is_uri, rest = (output if place.startswith("//") else place).partition("://")
    if not is_uri:
        return ("file", place) if place.startswith("/") else (kind or "spark", place)
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    authority, _, path = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
    authority = re.sub(r"^[^@]*:[^@]*@", "", authority)
    return (f"{scheme}://{authority}" if authority else scheme), (path or "/" if scheme in _BUCKETS else f"/{path}")


def known_servers(plan: Mapping[str, object]) -> str:
    """The brokers among the Spark job's arguments, as the resolve task pushed them."""
    arguments = plan["arguments"]
    assert isinstance(arguments, Sequence)
    return str(arguments[arguments.index("--bootstrap-servers") + 1])
