"""What a task tells of lineage, as OpenLineage's facets: the ranges that it read of each topic, and the rows it wrote.

A facet is a mapping here, with the names of OpenLineage's JSON; what is not known is absent, and never 0. Sums are of
all partitions. Of the ranges an event lists the first few hundred, and says how many it has left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.kafka_values import grouped
from airflow_kafka_offsets.log.verify_reads import Fates, Proof
from airflow_kafka_offsets.plan.dataset_names import dataset_of_output, kafka_namespace
from airflow_kafka_offsets.plan.plan import Plan, PlannedPartition
from airflow_kafka_offsets.plan.topic_outputs import of_topic, outputs_of
from airflow_kafka_offsets.request.times import iso

MOST_RANGES = 500
"""In one event. Each has some 60 bytes."""

Facets = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TaskLineage:
    """One event's datasets: (namespace, name) → its facets.

    :ivar batch: of the run: which batch, and by which plan; ``None`` where there is none.
    """

    inputs: Mapping[tuple[str, str], Facets] = field(default_factory=dict)
    outputs: Mapping[tuple[str, str], Facets] = field(default_factory=dict)
    batch: Mapping[str, Any] | None = None


def of_topics(bootstrap_servers: str, topics: Iterable[str]) -> TaskLineage:
    """Of a task that is going to plan: nothing is known but what it subscribes to."""
    namespace = kafka_namespace(bootstrap_servers)
    return TaskLineage({(namespace, topic): {} for topic in topics})


def of_plan(
    plan: Plan,
    bootstrap_servers: str,
    *,
    split: int | None = None,
    fates: Fates | None = None,
    writes: bool = False,
    committed: bool | None = None,
    proof: Proof | None = None,
) -> TaskLineage:
    """Of a task that does a batch.

    :param split: which one the task reads; ``None``: all.
    :param fates: what became of the records, by verified reports.
    :param writes: whether the outputs belong to the task: they do not where it only plans.
    :param proof: how the reports know.
    """
    read = plan.partitions if split is None else plan.splits[split]
    by_topic = grouped((p.topic_partition.topic, p) for p in read)
    namespace, left = kafka_namespace(bootstrap_servers), MOST_RANGES
    inputs: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for topic, partitions in by_topic.items():
        facet = _ranges(plan, topic, partitions, left, is_whole=split is None)
        left -= len(facet["ranges"])
        inputs[namespace, topic] = {"kafkaOffsets_ranges": facet}
        if fates is not None:
            rows, set_aside, left_out = fates.topics.get(topic, (0, 0, 0))
            facet |= {"rows": rows, "setAside": set_aside, "leftOut": left_out}
            inputs[namespace, topic] |= {"inputStatistics": {"rowCount": rows + set_aside + left_out}}
    batch = {**_batch(plan), "split": split, "committed": committed, "proof": proof}
    known = {name: value for name, value in batch.items() if value is not None}
    return TaskLineage(inputs, _outputs(plan, list(by_topic), fates) if writes else {}, known)


def _batch(plan: Plan) -> dict[str, Any]:
    asked, bounds = plan.asked, plan.asked.window_bounds
    return {
        "pipeline": plan.pipeline,
        "batch": plan.batch.key,
        "number": plan.batch.number,
        "windowStart": None if bounds is None else iso(bounds[0]),
        "windowEnd": None if bounds is None else iso(bounds[1]),
        "planId": plan.plan_id,
        "clusterId": plan.found.cluster_id,
        "groupId": asked.group_id,
        "isolationLevel": asked.isolation_level,
        "startupMode": asked.startup_mode,
        "boundedMode": asked.bounded_mode,
        "splits": plan.split_count,
        "partitionCount": len(plan.partitions),
        "offsetCount": plan.record_count_upper_bound,
        "lost": plan.lost,
        "skipped": plan.skipped,
    }


def _ranges(
    plan: Plan, topic: str, partitions: Sequence[PlannedPartition], most: int, *, is_whole: bool
) -> dict[str, Any]:
    to_read = [p for p in partitions if p.size]
    facet: dict[str, Any] = {
        "ranges": [
            {"partition": p.topic_partition.partition, "startOffset": p.start_offset, "endOffset": p.end_offset}
            for p in to_read[:most]
        ],
        "rangesLeftOut": max(0, len(to_read) - most),
        "partitionCount": len({p.topic_partition for p in partitions}),
        "offsetCount": sum(p.size for p in partitions),
    }
    if (topic_id := plan.found.topic_ids.get(topic)) is not None:
        facet["topicId"] = topic_id
    if is_whole:  # a split has pieces of partitions
        facet |= {"lost": sum(p.lost for p in partitions), "skipped": sum(p.skipped for p in partitions)}
    return facet


def _outputs(plan: Plan, topics: Sequence[str], fates: Fates | None) -> dict[tuple[str, str], Facets]:
    """What is written: rows by the plan, and bad records where the reports name an output that is no topic's."""
    written = {} if fates is None else fates.columns
    pattern = plan.asked.output
    of_rows = outputs_of(pattern, plan.topics)
    found: dict[tuple[str, str], Facets] = {}
    for output in dict.fromkeys([*outputs_of(pattern, topics), *sorted(written)]):
        facets: dict[str, Any] = {}
        if columns := written.get(output):
            facets["schema"] = {"fields": [{"name": name, "type": kind} for name, kind in columns.items()]}
        if fates is not None:
            rows = [rows for topic, (rows, _, _) in fates.topics.items() if of_topic(pattern or "", topic) == output]
            facets["outputStatistics"] = {"rowCount": sum(rows) if output in of_rows else fates.set_aside}
        found[dataset_of_output(output)] = facets
    return found
