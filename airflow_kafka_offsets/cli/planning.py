"""``plan``: what a run would read, and why."""

from __future__ import annotations

import sys

from airflow_kafka_offsets.cli.inputs import Options, client_config, text_or_file
from airflow_kafka_offsets.cli.options import REQUEST
from airflow_kafka_offsets.cli.render import render_plan
from airflow_kafka_offsets.planner import plan_offsets


def plan(options: Options) -> int:
    """Make a plan and print it. Nothing is written to Kafka, nor anywhere else."""
    parameters = {option.name: options[option.name] for option in REQUEST if options.get(option.name) is not None}
    for name in ("specific_offsets", "bounded_offsets"):
        if name in parameters:
            parameters[name] = text_or_file(options, name)
    made = plan_offsets(client_config(options), **parameters)
    for warning in made.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(render_plan(made, options.get("output") or "table"))
    return 0
