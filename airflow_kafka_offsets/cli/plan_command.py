"""``plan``: what the next run would read, and why. Nothing is written anywhere."""

from __future__ import annotations

import json

from airflow_kafka_offsets.batch.complete_request import request_for
from airflow_kafka_offsets.batch.preview import preview_plan
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.batch_tables import ranges_of
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import client_config, pipeline_asked_for, saved_text
from airflow_kafka_offsets.cli.options import OF_FIELD, request_of
from airflow_kafka_offsets.cli.printing import Answer
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
from airflow_kafka_offsets.request.offset_maps import IN_PLACES, is_place, mapping, to_csv, to_flink
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.parse_request import RunContext
from airflow_kafka_offsets.request.problems import parsed

_OF_BATCHES = ("restart", "re_plan", "redo", "skip")  # which only a pipeline has


def plan(options: Options) -> Answer:
    """The plan; with ``--output json`` it is exactly the plan's JSON."""
    if options.get("work_store") and options.get("pipeline_id") is None:
        raise InvalidRequest(("--work-store goes with --pipeline-id only: without it the startup mode decides.",))
    config = client_config(options)
    parameters = _parameters(options)
    request = request_for(config, parameters, RunContext(now_ms()))
    stray = [f"{OF_FIELD[name].flag} goes with --pipeline-id only." for name in _OF_BATCHES if options.get(name)]
    if stray and request.scope.pipeline_id is None:
        raise InvalidRequest(tuple(stray))
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
