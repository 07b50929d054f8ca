"""``partitions``, ``lag`` and ``plan``: what there is, how far a pipeline is, and what it would read. They only read.

How old the first unread record of a partition is, only that record says. So ``lag`` reads it, in the partitions that
have one. All else is batch questions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from airflow_kafka_offsets.batch.look_ups import topics_that_exist
from airflow_kafka_offsets.batch.measured_lag import (
    PartitionState,
    measure,
    next_offsets,
    partition_states,
    position_of,
)
from airflow_kafka_offsets.batch.preview import preview_plan
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.batch_tables import ranges_of
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import client_config, pipeline_asked_for, saved_text
from airflow_kafka_offsets.cli.options import OF_FIELD, SUBSCRIPTION, request_of
from airflow_kafka_offsets.cli.printing import Answer, Column, Table, columns, in_time
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest, NoCommittedOffset, refuse
from airflow_kafka_offsets.kafka_values import ClusterDescription, CommittedOffset
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata, writer_of
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin, log_starts_of
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
from airflow_kafka_offsets.request.offset_maps import IN_PLACES, is_place, mapping, to_csv, to_flink
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.subscription import Scope, scope_for
from airflow_kafka_offsets.request.times import short_time


def partitions(options: Options) -> Answer:
    """Each partition of the topics that are asked for."""
    config = client_config(options)
    scope = _scope(config, options)
    with KafkaCluster(config) as cluster:
        found = cluster.describe(scope.subscription)
        states = partition_states(cluster, found, found.partitions(), scope.isolation_level)
    rows = [{**_row(state), "leader": state.leader, "records": state.record_count_upper_bound} for state in states]
    records = sum(state.record_count_upper_bound or 0 for state in states)
    shown = [
        *columns("topic", "topic_id", "partition"),
        Column("leader", absent="none"),
        *columns("log_start", "end", "records", absent="unknown"),
    ]
    return Answer(
        [Table(shown, rows)],
        {"cluster_id": found.cluster_id, "isolation_level": scope.isolation_level},
        f"up to {records} records in {len(rows)} partitions, {scope.isolation_level}, cluster {found.cluster_id}",
    )


def lag(options: Options) -> Answer:
    """How far the group is in each partition, and who wrote that; or how far the pipeline is, by its log."""
    config = client_config(options)
    everything = all(options.get(name) is None for name in ("topics", "topic_pattern", "partitions"))
    scope = _scope(config, {**options, "topic_pattern": ".*"} if everything else options, "group_id", "pipeline_id")
    pipeline = pipeline_asked_for(options) if scope.pipeline_id is not None else None
    newest = pipeline.newest() if pipeline else None
    position = position_of(pipeline) if pipeline else None
    group_id = scope.group_id or (
        newest.log.plan.asked.group_id if newest and newest.log.plan.asked.group_follows else None
    )
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
            found = topics_that_exist(cluster, topics) or ClusterDescription(cluster.cluster_id())
            if pipeline is not None:  # a partition that is new counts as unread
                wanted += [tp for tp in found.partitions() if tp.topic in topics]
        else:
            found = cluster.describe(scope.subscription)
            wanted = found.partitions()
        states = partition_states(cluster, found, wanted, scope.isolation_level)
        counted = {tp: commit.offset for tp, commit in committed.items()}
        anew: Sequence[str] = ()
        if pipeline is not None:
            counted, anew = next_offsets(position, found, scope.pipeline_id or "", states)
        before = log_starts_of(newest.log.plan if newest else None, found)
        measured = measure(states, counted, before, cluster, scope.isolation_level, now_ms())
    saved = {tp: at.offset for tp, at in position.offsets.items() if tp.topic not in anew} if position else {}
    rows = [
        _row_of_lag(state, committed.get(tp), saved.get(tp), measured.partitions[tp])
        for state in states
        for tp in [state.topic_partition]
    ]
    all_of_it = measured.together
    known = sum(row["lag"] is not None for row in rows)
    shown = [
        *columns("topic", "partition"),
        *(columns("position", absent="none") if pipeline else ()),
        Column("committed", absent="none"),
        *columns("log_start", "end", "lag", absent="unknown"),
        in_time("behind_ms", "oldest unread"),
        Column("held_back", heading="held back by transactions"),
        Column("margin", heading="records until retention"),
        in_time("margin_ms", "time until retention"),
        Column("committed_by"),
        *columns("pipeline", "instance", "batch", for_people=False),  # "committed by" says it for people
    ]
    whose = f"pipeline {scope.pipeline_id}" if pipeline else f"group {group_id}"
    unknown = f", unknown in {len(rows) - known} more" if known < len(rows) else ""
    return Answer(
        [Table(shown, rows)],
        {
            "cluster_id": found.cluster_id,
            "group_id": group_id,
            "pipeline_id": scope.pipeline_id,
            "isolation_level": scope.isolation_level,
            **asdict(all_of_it),
        },
        f"{whose}: lag {all_of_it.lag or 0} in {known} partitions{unknown}{_in_words(all_of_it)}, "
        f"{scope.isolation_level}, cluster {found.cluster_id}",
        messages=[
            *(f"warning: topic {name} was deleted and created again: the position is of the old one" for name in anew),
            *(f"warning: {why}" for why in measured.not_known),
        ],
    )


def _in_words(lag: LagAndMargin) -> str:
    oldest = f", the oldest unread record is {short_time(lag.behind_ms)} old" if lag.behind_ms else ""
    if lag.margin_ms is None:
        return oldest
    return f"{oldest}, retention takes the first in {short_time(lag.margin_ms)} at the earliest"


def _scope(config: Mapping[str, object], options: Options, *more: str) -> Scope:
    names = (*SUBSCRIPTION, "isolation_level", *more)
    asked = {name: options[name] for name in names if options.get(name) is not None}
    return scope_for(config, ScopeParameters(**asked))


def _refuse_unknown_group(cluster: KafkaCluster, group_id: str) -> None:
    """:raises NoCommittedOffset: the cluster does not know the group; one with members and no commit is known."""
    if cluster.describe_group(group_id).state == "Dead":
        raise NoCommittedOffset(
            [f"Group {group_id!r} is not known to cluster {cluster.cluster_id()}: it has no commit and no member"],
            "Correct the name, or the cluster. (Kafka forgets the offsets of a group without members, after seven days "
            "by default: --pipeline-id counts from a pipeline's own position.)",
        )


def _row(state: PartitionState) -> dict[str, object]:
    return {
        "topic": state.topic_partition.topic,
        "topic_id": state.topic_id,
        "partition": state.topic_partition.partition,
        "log_start": state.log.log_start_offset if state.log else None,
        "end": state.log.end_offset if state.log else None,
    }


def _row_of_lag(
    state: PartitionState, commit: CommittedOffset | None, counted_from: int | None, lag: LagAndMargin
) -> dict[str, object]:
    metadata = CommitMetadata.of(commit) if commit else None
    return {
        **_row(state),
        "position": counted_from,
        "committed": commit.offset if commit else None,
        **asdict(lag),
        "held_back": state.log.high_watermark - state.log.end_offset if state.log else None,
        "committed_by": writer_of(commit) if commit else None,
        "pipeline": metadata.pipeline if metadata else None,
        "instance": metadata.instance if metadata else None,
        "batch": metadata.batch if metadata else None,
    }


# ── plan: what the next run would read, and why ───────────────────────────────────────────────────────────────────────


_OF_BATCHES = ("restart", "re_plan", "redo", "skip")  # which only a pipeline has


def plan(options: Options) -> Answer:
    """The plan; with ``--output json`` it is exactly the plan's JSON."""
    if options.get("work_store") and options.get("pipeline_id") is None:
        raise InvalidRequest(("--work-store goes with --pipeline-id only: without it the startup mode decides.",))
    config = client_config(options)
    parameters = _parameters(options)
    request = request_for(config, parameters, RunContext(now_ms()))
    stray = [f"{OF_FIELD[name].flag} goes with --pipeline-id only." for name in _OF_BATCHES if options.get(name)]
    if request.scope.pipeline_id is None:
        refuse(stray)
    pipeline = pipeline_asked_for(options) if request.scope.pipeline_id is not None else None
    with KafkaCluster(config) as cluster:
        made = preview_plan(request, cluster, pipeline)
    starts = {p.topic_partition: p.start_offset for p in made.partitions}
    ends = {p.topic_partition: p.end_offset for p in made.partitions}
    as_text = {
        "json": lambda: json.dumps(plan_to_dict(made)),
        "offsets-csv": lambda: to_csv(starts),
        "offsets-flink": lambda: to_flink(starts),
        "ends-csv": lambda: to_csv(ends),
        "ends-flink": lambda: to_flink(ends),
    }.get(options.get("output") or "table")
    warnings = [f"warning: {warning}" for warning in made.warnings]
    return Answer([ranges_of(made)], summary=_summary(made), text=as_text and as_text(), messages=warnings)


def _parameters(options: Options) -> RequestParameters:
    given = request_of(options)
    for name in IN_PLACES:
        if is_place(given.get(name)):
            given[name] = saved_text(OF_FIELD[name].flag, given[name][1:])
    if given.get("skip", "").startswith("{"):
        words = given["skip"]
        given["skip"] = parsed("--skip", lambda: mapping(words, '{"batch": KEY, "past": "orders-3:4711"}'))
    return RequestParameters(**given)


def _summary(plan: Draft) -> str:
    group = f"group {plan.asked.group_id}" if plan.asked.group_id else "no group"
    kind = "window" if plan.asked.window else f"from {plan.asked.startup_mode}"
    name = f"plan {plan.plan_id}" if isinstance(plan, Plan) else "plan"
    return (
        f"{name}: up to {plan.record_count_upper_bound} records of {len(plan.partitions)} partitions, "
        f"{kind} to {plan.asked.bounded_mode}, {plan.asked.isolation_level}, {group}, cluster {plan.found.cluster_id}"
    )
