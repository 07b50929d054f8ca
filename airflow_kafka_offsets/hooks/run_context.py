"""What a task reads from its run (name, times, conf), and what Airflow knows of other runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any
from urllib.parse import urlsplit

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_kafka_offsets.batch.no_airflow import NoAirflow, Step
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.hooks.airflow_versions import conf, runs_that_succeeded_last
from airflow_kafka_offsets.hooks.metrics import Gauge, timed
from airflow_kafka_offsets.hooks.work_store import runs_elsewhere
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.request.bounds import Partition
from airflow_kafka_offsets.request.parse_request import RunContext
from airflow_kafka_offsets.request.run_conf import refuse_misplaced
from airflow_kafka_offsets.request.times import parse_timestamp_ms, parse_zone
from airflow_kafka_offsets.stores.location import location_of

PIPELINE_XCOM = "pipeline"
"""The key under which each resolve task pushes its pipeline's name: Airflow's own memory of which ones there are."""
PLAN_XCOM = "plan"
"""The key under which resolve pushes which batch it does, and where its log is."""
SUMMARY_XCOM = "summary"
"""The key under which resolve and commit push what they did, in words: for people in Airflow's UI."""


@dataclass(frozen=True, slots=True)
class AirflowSurroundings(NoAirflow):
    """The Airflow around a task.

    :ivar pipeline: the pipeline_id that the task plans for.
    :ivar steps: the metrics that say how long the engine's steps take in this task.
    :ivar is_alone: whether the task never had another pipeline, unless its DAG was edited, and no claim of an output
        says so.
    """

    context: Any
    pipeline: str
    steps: Mapping[Step, Gauge]
    is_alone: bool = False

    @property
    def instance(self) -> str:
        return this_airflow()

    def is_running(self, run: RunKey) -> bool:
        ti = self.context["ti"]
        return bool(ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=["running"]))

    def timed(self, step: Step) -> AbstractContextManager[None]:
        return timed(self.steps[step], self.pipeline)

    def failed_tasks(self, run: RunKey) -> list[str]:
        try:
            states = self.context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])
        except AirflowRuntimeError:  # worth knowing, and never worth a failure
            return []
        return sorted(task for task, state in states.get(run.run_id, {}).items() if state == "failed")

    def has_succeeded_before(self, run: RunKey) -> bool:
        """Whether the task has succeeded for this pipeline in another run, earlier or later than this one.

        A task has many pipelines where it is mapped, or where a template names the group or the pipeline_id, and each
        of them has a first run: so it is looked for by name. Where the XComs were purged, or the task has one pipeline
        alone, any success counts: that was before its group, or its pipeline_id, was edited.
        """
        ti = self.context["ti"]
        asked = {"dag_id": run.dag_id, "task_ids": [run.task_id], "states": ["success"]}
        if ti.get_ti_count(**asked) <= ti.get_ti_count(**asked, run_ids=[run.run_id]):
            return False
        if self.is_alone:
            return True
        names = set()
        for run_id in {run.run_id, *runs_that_succeeded_last(ti)}:
            names |= set(
                ti.xcom_pull(task_ids=[run.task_id], key=PIPELINE_XCOM, run_id=run_id, include_prior_dates=True)
            )
        return self.pipeline in names or not names - {None}


def this_airflow() -> str:
    """``[kafka_offsets] instance``, else Airflow's base URL: what names this Airflow in plans, commits and groups."""
    named: str = conf.get("kafka_offsets", "instance", fallback="") or conf.get("api", "base_url", fallback="")
    return named.rstrip("/") or "airflow"


def without_a_name(store_uri: str) -> str:
    """A warning where another machine reaches the work store, and nothing names this Airflow; else empty.

    A copy of it, development beside production, would do its batches: nothing would tell the two apart.
    """
    name = conf.get("kafka_offsets", "instance", fallback="")
    host = urlsplit(conf.get("api", "base_url", fallback="")).hostname
    is_shared = location_of(store_uri).kind != "file" or runs_elsewhere()
    if name or not is_shared or host not in (None, "localhost", "127.0.0.1", "::1", "0.0.0.0"):
        return ""
    return (
        f"Other Airflows may reach the work store {store_uri}, and this one has no name of its own: a copy of it would "
        "do its batches. Set [kafka_offsets] instance (AIRFLOW__KAFKA_OFFSETS__INSTANCE) to a name that no other "
        f"Airflow has. What it has planned so far is of {this_airflow()!r}: to go on with that, give it this name, or "
        "let one run take over."
    )


def run_key(context: Any) -> RunKey:
    """The task instance of ``context``; the same for every retry and after every clear."""
    ti = context["ti"]
    return RunKey(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index)


def run_conf(context: Any) -> Any:
    """``kafka_offsets`` of the run's conf, which applies to this run alone. ``"restart": true`` stands for the run.

    :raises InvalidRequest: a policy stands beside it: it would be without effect.
    """
    conf = context["dag_run"].conf or {}
    refuse_misplaced(conf)
    found = conf.get("kafka_offsets")
    if isinstance(found, dict) and found.get("restart") is True:
        return {**found, "restart": f"run {context['ti'].run_id}"}
    return found


def run_context_of(context: Any) -> RunContext:
    """The run's times: its data interval and its partition."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    interval = None if start is None or end is None else (parse_timestamp_ms(start), parse_timestamp_ms(end))
    run_type = context["dag_run"].run_type if "dag_run" in context else "manual"
    return RunContext(now_ms(), interval, _partition_of(context), str(getattr(run_type, "value", run_type)))


def _partition_of(context: Any) -> Partition | None:
    """The partition that the run is for; ``None`` where it is for none."""
    key, date = context.get("partition_key"), context.get("partition_date")
    if key is None and date is None:
        return None
    date_ms = None if date is None else parse_timestamp_ms(date)
    return Partition(str(key), date_ms, _zone_of_timetable(context))


def _zone_of_timetable(context: Any) -> tzinfo:
    zone = getattr(getattr(context.get("dag"), "timetable", None), "timezone", None)
    if isinstance(zone, str):
        return parse_zone(zone)
    return zone if isinstance(zone, tzinfo) else UTC
