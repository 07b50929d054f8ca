"""``partitions`` and ``lag``: the state of a cluster's partitions and groups. Both only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.inputs import Options, client_config, pipeline_asked_for
from airflow_kafka_offsets.cli.options import SUBSCRIPTION
from airflow_kafka_offsets.cli.render import Page, Table, say, show
from airflow_kafka_offsets.errors import ClusterChanged, InvalidRequest, NoCommittedOffset
from airflow_kafka_offsets.offsets.batch.mark import Mark, writer_of
from airflow_kafka_offsets.offsets.model import ClusterDescription, CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan.position import Position
from airflow_kafka_offsets.offsets.request.scope import Scope, ScopeParameters
from airflow_kafka_offsets.pipeline.present import describe_present
from airflow_kafka_offsets.pipeline.request import scope_for
from airflow_kafka_offsets.pipeline.status import PartitionState, partition_states, position_of

_UNKNOWN = {"leader": "none", "log start": "unknown", "end": "unknown", "records": "unknown", "lag": "unknown"}


def partitions(options: Options) -> int:
    """Each partition of the topics that are asked for."""
    config = client_config(options)
    asked = {name: options[name] for name in (*SUBSCRIPTION, "isolation_level") if options.get(name) is not None}
    scope = scope_for(config, ScopeParameters(**asked))
    with KafkaCluster(config) as cluster:
        found = cluster.describe(scope.subscription)
        states = partition_states(cluster, found, found.partitions(), scope.isolation_level)
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
    facts = {"cluster_id": found.cluster_id, "isolation_level": scope.isolation_level}
    records = sum(state.record_count_upper_bound or 0 for state in states)
    summary = f"up to {records} records in {len(rows)} partitions, {scope.isolation_level}, cluster {found.cluster_id}"
    show(Page([Table(columns, rows, absent=_UNKNOWN)], facts, summary), options.get("output"))
    return 0


def lag(options: Options) -> int:
    """How far the group is in each partition, and who wrote that; or how far the pipeline is, by its log."""
    config = client_config(options)
    everything = all(options.get(name) is None for name in ("topics", "topic_pattern", "partitions"))
    scope = _scope(config, options, everything)
    pipeline = pipeline_asked_for(options) if scope.pipeline_id is not None else None
    position = position_of(pipeline) if pipeline else None
    newest = pipeline.newest() if pipeline else None
    group_id = scope.group_id or (newest.log.plan.asked.group_id if newest and newest.log.plan.asked.mirrors else None)
    if group_id is None and pipeline is None:
        raise InvalidRequest(
            ("Whose lag? Give --group-id or --pipeline-id, or set group.id in the client configuration.",)
        )
    with KafkaCluster(config) as cluster:
        committed = cluster.all_committed(group_id) if group_id is not None else {}
        if pipeline is None and not committed:
            _refuse_unknown_group(cluster, str(group_id))
        wanted = [*committed, *(position.offsets if position else ())]
        if everything:
            topics = {tp.topic for tp in wanted}
            found = describe_present(cluster, topics) or ClusterDescription(cluster.cluster_id())
        else:
            found = cluster.describe(scope.subscription)
            wanted = found.partitions()
        states = partition_states(cluster, found, wanted, scope.isolation_level)
    kept = _kept(position, found, scope.pipeline_id or "") if pipeline else None
    show(_page(_Lag(scope, group_id, found, states, committed, kept)), options.get("output"))
    return 0


def _scope(config: Mapping[str, object], options: Options, everything: bool) -> Scope:
    names = (*SUBSCRIPTION, "isolation_level", "group_id", "pipeline_id")
    asked = {name: options[name] for name in names if options.get(name) is not None}
    return scope_for(config, ScopeParameters(**{**asked, **({"topic_pattern": ".*"} if everything else {})}))


def _refuse_unknown_group(cluster: KafkaCluster, group_id: str) -> None:
    """:raises NoCommittedOffset: the cluster does not know the group; one with members and no commit is known."""
    if cluster.describe_group(group_id).state == "Dead":
        raise NoCommittedOffset(
            [f"Group {group_id!r} is not known to cluster {cluster.cluster_id()}: it has no commit and no member"],
            "Correct the name, or the cluster. (Kafka forgets the offsets of a group without members, after seven days "
            "by default: --pipeline-id counts from a pipeline's own position.)",
        )


def _kept(position: Position | None, found: ClusterDescription, pipeline: str) -> dict[TopicPartition, int]:
    """The position's offsets, without those of a log that is gone.

    :raises ClusterChanged: the position is another cluster's.
    """
    if position is None:
        return {}
    if position.cluster_id != found.cluster_id:
        raise ClusterChanged(pipeline, position.cluster_id, found.cluster_id)
    anew = {
        name
        for name, topic in found.topics.items()
        if topic.topic_id is not None and position.topic_ids.get(name) not in (None, topic.topic_id)
    }
    say(
        *(
            f"warning: topic {name} was deleted and created again: the position is of the old one"
            for name in sorted(anew)
        )
    )
    return {tp: kept.offset for tp, kept in position.offsets.items() if tp.topic not in anew}


@dataclass(frozen=True)
class _Lag:
    """:ivar kept: the position of the pipeline that is asked for; ``None``: counted from the group's commits."""

    scope: Scope
    group_id: str | None
    found: ClusterDescription
    states: list[PartitionState]
    committed: Mapping[TopicPartition, CommittedOffset]
    kept: Mapping[TopicPartition, int] | None

    def of(self, state: PartitionState) -> int | None:
        if self.kept is None:
            return state.lag(self.committed.get(state.topic_partition))
        kept = self.kept.get(state.topic_partition)
        return None if kept is None else state.lag(CommittedOffset(kept))


def _page(lag: _Lag) -> Page:
    of_pipeline = lag.kept is not None
    rows = []
    for state in lag.states:
        tp = state.topic_partition
        commit = lag.committed.get(tp)
        mark = Mark.of(commit) if commit else None
        rows.append(
            (
                tp.topic,
                tp.partition,
                *((lag.kept.get(tp),) if lag.kept is not None else ()),
                commit.offset if commit else None,
                state.log.log_start_offset if state.log else None,
                state.log.end_offset if state.log else None,
                lag.of(state),
                writer_of(commit) if commit else None,
                mark.pipeline if mark else None,
                mark.instance if mark else None,
                mark.batch if mark else None,
            )
        )
    hidden = ("pipeline", "instance", "batch")  # "committed by" says it for people
    columns = ("topic", "partition", *(("position",) if of_pipeline else ()), "committed", "log start", "end", "lag")
    absent = {**_UNKNOWN, "committed": "none", "position": "none"}
    table = Table((*columns, "committed by", *hidden), rows, absent=absent, hidden=hidden)
    lags = [lag.of(state) for state in lag.states]
    unknown = lags.count(None)
    isolation, cluster_id = lag.scope.isolation_level, lag.found.cluster_id
    whose = f"pipeline {lag.scope.pipeline_id}" if of_pipeline else f"group {lag.group_id}"
    summary = (
        f"{whose}: lag {sum(known for known in lags if known is not None)} in {len(rows) - unknown} partitions"
        + (f", unknown in {unknown} more" if unknown else "")
        + f", {isolation}, cluster {cluster_id}"
    )
    facts = {
        "cluster_id": cluster_id,
        "group_id": lag.group_id,
        "pipeline_id": lag.scope.pipeline_id,
        "isolation_level": isolation,
    }
    return Page([table], facts, summary)
