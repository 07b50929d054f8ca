"""The tasks between resolve and commit, for a commit that asks for no report: their states alone say who has read."""

from __future__ import annotations

import re
from typing import Any

from airflow.sdk import XComArg

from airflow_kafka_offsets.errors import InvalidRequest


def not_successful(task: Any, resolve: Any, context: Any, map_index: int) -> list[str]:
    """The instances of a task that are no success, with their states.

    :param map_index: that of the resolve task.
    """
    found = _states(task, resolve, context, map_index)
    return [f"{name}: {state}" for name, state in found if state not in ("success", "removed")]


def is_given(task: Any, resolve: str) -> bool:
    """Whether a task gets an XCom of the resolve task, or pulls one in a template. A branch decides by it, at most."""
    if getattr(task, "inherits_from_skipmixin", False):
        return False
    fields = [getattr(task, name, None) for name in task.template_fields] + [getattr(task, "partial_kwargs", None)]
    of_mapping = task.iter_mapped_dependencies() if task.is_mapped else ()
    references = [*(operator for operator, _ in XComArg.iter_xcom_references(fields)), *of_mapping]
    pulls = "xcom_pull" in str(fields) and re.search(rf"\b{re.escape(resolve)}\b", str(fields))
    return bool(pulls) or any(operator.task_id == resolve for operator in references)


def refuse_who_read_before(resolve: Any, context: Any, map_index: int) -> None:
    """A task that was not cleared with this one has read by another plan, and the commit would take it for this one's.

    :raises InvalidRequest: one of this run, which is given the plan, is a success already.
    """
    dag = resolve.get_dag()
    if dag is None:
        return
    first = dag.get_task(resolve.task_id)
    after = [dag.get_task(name) for name in sorted(first.get_flat_relative_ids(upstream=False))]
    trusting = [task for task in after if _asks_for_no_report(task)]
    before = set().union(*(task.get_flat_relative_ids(upstream=True) for task in trusting))
    readers = [task for task in after if task.task_id in before and is_given(task, first.task_id)]
    done = []
    for task in readers:
        done += [name for name, state in _states(task, first, context, map_index) if state == "success"]
    if done:
        raise InvalidRequest(
            (
                f"Task {', '.join(done)} of this run has succeeded before this task was started again. It would not "
                "read by this plan, and without reports nobody sees that. Clear this task together with those after "
                "it.",
            )
        )


def _asks_for_no_report(task: Any) -> bool:
    given = task.partial_kwargs if task.is_mapped else vars(task)
    return given.get("require_report", True) is False


def _states(task: Any, resolve: Any, context: Any, map_index: int) -> list[tuple[str, str | None]]:
    """Of a task in the mapped group of the resolve task, the instance of its map index alone."""
    ti, group = context["ti"], resolve.get_closest_mapped_task_group()
    is_own = group is not None and task.get_closest_mapped_task_group() is group
    which = {"map_index": map_index} if is_own else {}
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[task.task_id], run_ids=[ti.run_id], **which)
    return sorted(states.get(ti.run_id, {}).items())
