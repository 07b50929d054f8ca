# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a task reads from its run: its name, its times, its conf, and what Airflow knows of other runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import RefusedError, RequestError
from airflow_kafka_offsets.kafka_values import Planned, RunKey
from airflow_kafka_offsets.request import RunContext

PLAN_XCOM = "plan"
PLANNED_XCOM = "planned"
ACT_XCOM = "act"
SUMMARY_XCOM = "summary"
_KEPT = (
    "This run keeps its DAG as of bundle version {}: after a correction, clear it with 'Run with latest bundle "
    "version' (run_on_latest_version in the API)."
)
_ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


def run_key(context: Any, name: str) -> RunKey:
    """The run of a batch; the same for every retry and after every clear.

    :param name: the id of the task that runs the whole batch, or of the group whose tasks do.
    """
    ti = context["ti"]
    return RunKey(ti.dag_id, ti.run_id, name, -1 if ti.map_index is None else ti.map_index, clears_of(context))


def clears_of(context: Any) -> str:
    """What each clear changes, and no retry.

    Airflow 3.1's ``clear_number`` leaves out a clear in a run that has not ended. A clear changes ``max_tries``, too.
    """
    return f"{context['dag_run'].clear_number or 0}.{context['ti'].max_tries}"


def run_context(context: Any, pipelines: Collection[str] | None = None) -> RunContext:
    """The run's times and conf. A run without a logical date has no such names in its context.

    :param pipelines: those of the DAG.
    """
    date = context.get("partition_date")  # of a partitioned run, which has no data interval
    start, end = context.get("data_interval_start", date), context.get("data_interval_end", date)
    interval = (
        None if start is None or end is None else (round(start.timestamp() * 1000), round(end.timestamp() * 1000))
    )
    conf = context["dag_run"].conf if "dag_run" in context else None
    return RunContext(now_ms(), interval, (conf or {}).get("kafka_offsets"), pipelines)


@dataclass(frozen=True, slots=True)
class AirflowOf:
    """The Airflow around a task, as the engine asks it.

    :ivar pipeline_id: the pipeline that the task works on.
    :ivar own: this task's run.
    :ivar tasks: the ids of the tasks that do its batch, from resolve to commit.
    :ivar job: the job object of the task, for a batch of these topics.
    """

    context: Any
    pipeline_id: str
    own: RunKey
    tasks: Collection[str]
    job: Callable[[Collection[str]], Mapping[str, Any] | None]

    def is_running(self, run: RunKey) -> bool:
        """Whether a task of that run, from resolve to commit, is running or is still to run.

        The tasks of another DAG, or of another task or group, are known by their names.
        """
        ti, index = self.context["ti"], f"_{run.map_index}" if run.map_index >= 0 else ""
        if not ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=["running"]):
            return False
        is_like_own = (run.dag_id, run.task_id) == (self.own.dag_id, self.own.task_id)

        def does_batch(instance: str) -> bool:
            task_id = instance.removesuffix(index)
            is_named = task_id == run.task_id or task_id.startswith(f"{run.task_id}.")
            return instance.endswith(index) and (task_id in self.tasks if is_like_own else is_named)

        states = ti.get_task_states(dag_id=run.dag_id, run_ids=[run.run_id]).get(run.run_id, {})
        return any(does_batch(instance) and state not in _ENDED for instance, state in states.items())

    def last_planned(self) -> Planned | None:
        """What this task planned or retried last for this pipeline, as its XComs say.

        ``None``: there is none, or its XCom was purged. Airflow looks at runs up to this run's date.
        """
        pull, index = self.context["ti"].xcom_pull, self.own.map_index
        try:
            planned = pull(
                task_ids=self.context["ti"].task_id, key=PLANNED_XCOM, map_indexes=index, include_prior_dates=True
            )
        except FileNotFoundError:  # an XCom backend's object that was deleted
            return None
        is_own = planned and planned["pipeline"] == self.pipeline_id
        return Planned(planned["key"], planned["plan_id"]) if is_own else None

    def triggering_user(self) -> str | None:
        """Who triggered the run, by hand or by the API."""
        user: str | None = getattr(self.context["dag_run"], "triggering_user_name", None)
        return user

    def ways_past(self) -> str:
        return ways_past(self.context["task"])


def ways_past(task: Any) -> str:
    """What would keep a person's run from starting, in sentences; empty: nothing."""
    words = []
    if task.dag.max_active_runs == 1:
        words.append("The DAG runs one at a time (max_active_runs=1): end a run that is running first.")
    if task.depends_on_past:
        words.append("The task has depends_on_past: mark it as success in this run first, or the new run waits for it.")
    return " ".join(words)


@contextmanager
def failing_at_once(context: Any) -> Iterator[None]:
    """Turn an error that a retry cannot help into one that Airflow does not retry."""
    try:
        yield
    except (RequestError, RefusedError) as error:
        if getattr(error, "retriable", False):
            raise
        version = getattr(getattr(context.get("ti"), "bundle_instance", None), "version", None)
        kept = f"\n{_KEPT.format(version)}" if version else ""
        raise AirflowFailException(f"{error}{kept}") from None
