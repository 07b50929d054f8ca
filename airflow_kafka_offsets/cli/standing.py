"""``partitions`` and ``lag``: how things stand on a cluster. Both ask, and change nothing."""

from __future__ import annotations

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.inputs import Options, client_config, work_store
from airflow_kafka_offsets.cli.options import SUBSCRIPTION
from airflow_kafka_offsets.cli.render import Table, render
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.commits import CommitMark, writer_of
from airflow_kafka_offsets.offsets.model import ClusterDescription, TopicPartition
from airflow_kafka_offsets.offsets.request.modes import EarliestOffset, PlanRequest
from airflow_kafka_offsets.overview import describe_present, partition_states
from airflow_kafka_offsets.planner import request_for
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain

_NO_LOG = {"leader": "none", "log start": "unknown", "end": "unknown", "records": "unknown"}


def partitions(options: Options) -> int:
    """Each partition of the topics that are asked for."""
    config = client_config(options)
    request = _request(config, options, {option.name: options.get(option.name) for option in SUBSCRIPTION})
    with KafkaCluster(config) as cluster:
        found = cluster.describe(request.subscription)
        states = partition_states(cluster, found, found.partitions(), request.isolation_level)
    rows = [
        (
            state.topic_partition.topic,
            state.topic_id,
            state.topic_partition.partition,
            state.leader,
            state.log.log_start_offset if state.log else None,
            state.log.end_offset if state.log else None,
            state.record_count_upper_bound,
        )
        for state in states
    ]
    columns = ("topic", "topic id", "partition", "leader", "log start", "end", "records")
    facts = {"cluster_id": found.cluster_id, "isolation_level": request.isolation_level}
    records = sum(state.record_count_upper_bound or 0 for state in states)
    summary = (
        f"up to {records} records in {len(rows)} partitions, {request.isolation_level}, cluster {found.cluster_id}"
    )
    print(render(Table(columns, rows, facts, summary, absent=_NO_LOG), options.get("output")))
    return 0


def lag(options: Options) -> int:
    """How far the group is in each partition, who wrote that, and the pipeline's checkpoint beside it."""
    config = client_config(options)
    asked = {option.name: options.get(option.name) for option in SUBSCRIPTION}
    everything = all(value is None for value in asked.values())
    request = _request(
        config, options, {"topic_pattern": ".*"} if everything else asked, group_id=options.get("group_id")
    )
    if request.group_id is None:
        raise InvalidRequest(("Whose lag? Give --group-id, or set group.id in the client configuration.",))
    checkpoint_id = options.get("checkpoint_id")
    store = work_store(options) if checkpoint_id is not None else None
    with KafkaCluster(config) as cluster:
        committed = cluster.all_committed(request.group_id)
        cluster_id = cluster.cluster_id()
        checkpoint = CheckpointChain(store, cluster_id, checkpoint_id).newest() if store and checkpoint_id else None
        kept = checkpoint.offsets if checkpoint else {}
        if everything:
            wanted: list[TopicPartition] = [*committed, *kept]
            found = describe_present(cluster, {tp.topic for tp in wanted}) or ClusterDescription(cluster_id)
        else:
            found = cluster.describe(request.subscription)
            wanted = found.partitions()
        states = partition_states(cluster, found, wanted, request.isolation_level)
    rows = []
    for state in states:
        tp = state.topic_partition
        commit = committed.get(tp)
        mark = CommitMark.of(commit)
        rows.append(
            (
                tp.topic,
                tp.partition,
                commit.offset if commit else None,
                *((kept[tp].offset if tp in kept else None,) if checkpoint_id is not None else ()),
                state.log.log_start_offset if state.log else None,
                state.log.end_offset if state.log else None,
                state.lag(commit),
                writer_of(commit) if commit else None,
                mark.run if mark else None,
                mark.plan_id if mark else None,
            )
        )
    columns = [
        *("topic", "partition", "committed"),
        *(("checkpoint",) if checkpoint_id is not None else ()),
        *("log start", "end", "lag", "committed by", "run", "plan"),
    ]
    if options.get("output") in (None, "table"):  # "committed by" says it for people
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    lags = [state.lag(committed.get(state.topic_partition)) for state in states]
    unknown = lags.count(None)
    summary = (
        f"group {request.group_id}: lag {sum(known for known in lags if known is not None)} in {len(rows)} partitions"
        + (f", unknown in {unknown} of them" if unknown else "")
        + f", {request.isolation_level}, cluster {found.cluster_id}"
    )
    facts = {
        "cluster_id": found.cluster_id,
        "group_id": request.group_id,
        "isolation_level": request.isolation_level,
        "checkpoint": checkpoint.id if checkpoint else None,
    }
    absent = {**_NO_LOG, "committed": "none", "checkpoint": "none", "lag": "unknown"}
    print(render(Table(columns, rows, facts, summary, absent=absent), options.get("output")))
    return 0


def _request(
    config: dict[str, object], options: Options, subscription: Options, group_id: str | None = None
) -> PlanRequest:
    """Read as ``plan`` reads it: every problem at once, the connection's defaults; no mode is involved."""
    isolation_level = options.get("isolation_level")
    parameters = {**subscription, "group_id": group_id, "isolation_level": isolation_level}
    return request_for(config, {**parameters, "startup_mode": EarliestOffset.name})
