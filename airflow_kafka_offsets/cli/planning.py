"""``plan``: what the next run would read, and why. Nothing is written anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.batches import ranges_of
from airflow_kafka_offsets.cli.commands import COMMANDS
from airflow_kafka_offsets.cli.inputs import Options, client_config, pipeline_asked_for, text_or_file
from airflow_kafka_offsets.cli.options import OF_FIELD, request_of
from airflow_kafka_offsets.cli.render import Page, say, show
from airflow_kafka_offsets.cli.typed import text_as_typed
from airflow_kafka_offsets.errors import InvalidRequest, NoPosition
from airflow_kafka_offsets.offsets.plan.codec import plan_to_dict
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.request.offset_maps import mapping, to_csv, to_flink
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.offsets.request.parse import Occasion
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.preview import preview
from airflow_kafka_offsets.pipeline.request import request_for
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog

_PLAN = next(command for command in COMMANDS if command.name == "plan")
_WORDS = ("restart", "re_plan", "redo", "skip")  # they speak of batches, which only a pipeline has


def plan(options: Options) -> int:
    """Make a plan and print it."""
    if options.get("work_store") and options.get("pipeline_id") is None:
        raise InvalidRequest(("--work-store goes with --pipeline-id only: without it the startup mode decides.",))
    given = request_of(options)
    for name in ("specific_offsets", "bounded_offsets"):
        if name in given:
            given[name] = text_or_file(given[name], option="--" + name.replace("_", "-"))
    if given.get("skip", "").startswith("{"):
        given["skip"] = _skip(given["skip"])
    config = client_config(options)
    request = request_for(config, RequestParameters(**given), Occasion(now_ms()))
    words = [f"{OF_FIELD[name].flag} goes with --pipeline-id only." for name in _WORDS if given.get(name)]
    if words and request.scope.pipeline_id is None:
        raise InvalidRequest(tuple(words))
    pipeline = _pipeline(options) if request.scope.pipeline_id is not None else None
    with KafkaCluster(config) as cluster:
        made = preview(request, cluster, pipeline)
    say(*(f"warning: {text_as_typed(warning, _PLAN)}" for warning in made.warnings))
    _show(made, options.get("output") or "table")
    return 0


def _pipeline(options: Options) -> PipelineLog:
    try:
        return pipeline_asked_for(options)
    except NoPosition as error:
        raise NoPosition(error.partitions, f"{error.remedy} A first run is planned without --pipeline-id.") from None


def _skip(text: str) -> Mapping[str, Any]:
    try:
        return mapping(text, '{"batch": KEY, "past": "orders-3:4711"}')
    except ValueError as error:
        raise InvalidRequest((f"--skip {error}.",)) from None


def _show(plan: OffsetPlan, output: str) -> None:
    """Print it in one of the forms of ``plan --output``, ``json`` being exactly the plan's."""
    if output == "json":
        print(json.dumps(plan_to_dict(plan)))
    elif output in ("offsets-csv", "offsets-flink"):
        starts = {p.topic_partition: p.start_offset for p in plan.partitions}
        print(to_csv(starts) if output == "offsets-csv" else to_flink(starts))
    else:
        show(Page([ranges_of(plan)], summary=_summary(plan)), output)


def _summary(plan: OffsetPlan) -> str:
    group = f"group {plan.group_id}" if plan.group_id else "no group"
    kind = "window" if plan.window else f"from {plan.startup_mode}"
    return (
        f"plan {plan.plan_id}: up to {plan.record_count_upper_bound} records of {len(plan.partitions)} partitions, "
        f"{kind} to {plan.bounded_mode}, {plan.isolation_level}, {group}, cluster {plan.cluster_id}"
    )
