"""``runs``: the last runs of a pipeline, also the red and the empty ones, with what each did."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import pipeline_asked_for
from airflow_kafka_offsets.cli.printing import Answer, Column, Table, columns
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.log.last_runs import RunInLog, last_runs
from airflow_kafka_offsets.request.times import iso

if TYPE_CHECKING:
    from airflow_kafka_offsets.hooks.dag_runs import DagRunState

Row = dict[str, object]

_LAST = 20
NOTHING = "nothing that the log knows: it ended, or was stopped, before it took a batch"


def runs(options: Options) -> Answer:
    """By the log; under ``airflow``, with each run's state and with the runs that have left nothing in the log."""
    count = _LAST if options.get("last") is None else options["last"]
    if count < 1:
        raise InvalidRequest((f"--last is {count}; give a number of at least 1.",))
    pipeline = pipeline_asked_for(options)
    known = last_runs(pipeline, count)
    asks = "instance" in options  # the command is one of Airflow's
    states = _states({one.run.dag_id for one in known}, count) if asks else {}
    rows = [_row(one, states.get((one.run.dag_id, one.run.run_id))) for one in known]
    in_log = {(one.run.dag_id, one.run.run_id) for one in known}
    rows += [_only_in_airflow(dag_id, run) for (dag_id, _), run in states.items() if (dag_id, run.run_id) not in in_log]
    rows = sorted(rows, key=lambda row: str(row["at"] or ""), reverse=True)[:count]
    shown = [*columns("run"), Column("state", absent="unknown"), *columns("failed", "batch", "what", "at")]
    unknown = (
        ""
        if asks
        else ". Their states, and runs that failed before they took a batch, are known to Airflow alone: "
        "airflow kafka-offsets runs"
    )
    table = Table([*shown, *columns("dag_id", "run_id", "task_id", "map_index", "key", for_people=False)], rows, "runs")
    facts = {"pipeline_id": pipeline.pipeline_id, "airflow_asked": asks}
    return Answer([table], facts, f"{len(rows)} runs, newest first{unknown}")


def _states(dag_ids: Collection[str], count: int) -> Mapping[tuple[str, str], DagRunState]:
    from airflow_kafka_offsets.hooks.dag_runs import last_dag_runs

    return {(dag_id, run.run_id): run for dag_id in sorted(dag_ids) for run in last_dag_runs(dag_id, count)}


def _row(one: RunInLog, state: DagRunState | None) -> Row:
    at_ms = one.order[0] or (state.at_ms if state else None)
    return {
        "run": str(one.run),
        "state": state.state if state else None,
        "failed": ", ".join(state.failed) or None if state else None,
        "batch": one.batch,
        "what": one.what,
        "at": iso(at_ms) if at_ms else None,
        "dag_id": one.run.dag_id,
        "run_id": one.run.run_id,
        "task_id": one.run.task_id,
        "map_index": one.run.map_index,
        "key": one.key,
    }


def _only_in_airflow(dag_id: str, run: DagRunState) -> Row:
    return {
        "run": f"{dag_id}/{run.run_id}",
        "state": run.state,
        "failed": ", ".join(run.failed) or None,
        "what": NOTHING,
        "at": iso(run.at_ms),
        "dag_id": dag_id,
        "run_id": run.run_id,
    }
