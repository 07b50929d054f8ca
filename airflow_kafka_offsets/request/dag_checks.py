"""Checks a request when its DAG is parsed, so that mistakes are found before a run, not after Spark has written.

The request is read as a run would read it, with what only a run can know assumed at its best: an interval that has a
length, a group that the connection names, a time at which nothing lies in the future. A parameter that a template still
decides has its default meanwhile, and a problem that depends on such a parameter is left to the run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any, TypeVar

from airflow_kafka_offsets.errors import named
from airflow_kafka_offsets.request.modes import AtTimestamp
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.parse_request import RunContext, parse_request
from airflow_kafka_offsets.request.problems import Problems
from airflow_kafka_offsets.request.subscription import SUBSCRIPTION

T = TypeVar("T", bound=RequestParameters)
_END_OF_TIME_MS = 253_402_300_799_999  # the last moment of the year 9999

BEST_RUN_CONTEXT = RunContext(_END_OF_TIME_MS, (0, _END_OF_TIME_MS), run_type="scheduled")
"""A run at which nothing lies in the future, with an interval that has a length."""


def as_far_as_decided(asked: T, undecided: Collection[str]) -> T:
    """``asked`` with the default of each parameter that a template decides."""
    defaults: dict[str, Any] = {field.name: field.default for field in fields(asked)}
    return replace(asked, **{name: default for name, default in defaults.items() if name in undecided})


def problems_before_a_run(
    asked: RequestParameters, undecided: Collection[str], *, empty_intervals: bool = False, uneven: str = ""
) -> list[str]:
    """What no run could put right, in sentences.

    :param undecided: the parameters that a template decides.
    :param empty_intervals: whether the schedule gives its runs intervals without length.
    :param uneven: why its runs' intervals do not join; empty where they do.
    """
    if "from_plan" in undecided and all(getattr(asked, name) is None for name in SUBSCRIPTION):
        undecided = {*undecided, *SUBSCRIPTION}  # a plan names its partitions itself
    decided = as_far_as_decided(asked, undecided)
    run_context = replace(BEST_RUN_CONTEXT, interval=(0, 0)) if empty_intervals else BEST_RUN_CONTEXT
    problems = Problems()
    with_group = replace(decided, group_id="any" if decided.group_id is None else decided.group_id)
    problems.take_all(lambda: parse_request(with_group, run_context))
    modes, times = ("startup_mode", "bounded_mode"), ("startup_timestamp", "bounded_timestamp")
    by_interval = any(getattr(decided, name) is None for name in times)
    if uneven and by_interval and {getattr(decided, name) for name in modes} == {AtTimestamp.name}:
        problems.add(f"{' or '.join(map(named, times))} is missing, and {uneven}.", *modes, *times)
    return problems.without(undecided)
