"""Checks a sensor's parameters when its DAG is parsed, before there is a run to wait for.

What a template still decides is left to the run: it has its default meanwhile, and no problem that names it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_kafka_offsets.hooks.settled import unsettled
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.offsets.request.subscription import parse_scope
from airflow_kafka_offsets.stores.location import location_of


class Settled:
    """A sensor's parameters as far as they are known, by their names; ``None`` where a template decides."""

    def __init__(self, sensor: Any, names: Sequence[str]) -> None:
        given = {name: getattr(sensor, name) for name in names}
        rendered = {name: value for name, value in given.items() if name in sensor.template_fields}
        self._undecided = unsettled(rendered)
        self._problems = Problems()
        vars(self).update({name: None if name in self._undecided else value for name, value in given.items()})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # for mypy: which attributes there are is known at run time

    @property
    def scope(self) -> ScopeParameters:
        return ScopeParameters(
            **{name: getattr(self, name) for name in ScopeParameters.__dataclass_fields__ if hasattr(self, name)}
        )

    def check(self, parse: Callable[[], object], *parameters: str) -> None:
        """Keep the problems of an ``InvalidRequest`` that ``parse`` raises, which depend on ``parameters``."""
        self._problems.take_all(parse, *parameters)

    def take(self, parameter: str, parse: Callable[[], object]) -> None:
        """Keep the sentence of a ``ValueError`` that ``parse`` raises."""
        self._problems.take(parameter, parse, None)

    def check_what_all_have(self) -> None:
        """Topics, group, pipeline and work store. Which group it is the connection may tell."""
        self.check(lambda: parse_scope(self.scope))
        if getattr(self, "work_store", None) is not None:
            self.check(lambda: location_of(str(self.work_store)), "work_store")

    @property
    def problems(self) -> list[str]:
        """What no template can put right."""
        return self._problems.without(self._undecided)
