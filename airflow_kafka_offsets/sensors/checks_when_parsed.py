"""Checks a sensor's parameters when its DAG is parsed, before there is a run to wait for.

What a template still decides is left to the run: it has its default meanwhile, and a problem that depends on it does
not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_kafka_offsets.hooks.templates import unsettled
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.problems import Problems
from airflow_kafka_offsets.request.subscription import parse_scope
from airflow_kafka_offsets.stores.location import location_of


class Known:
    """The values of a sensor's template fields that no template and no other task can change, and their problems."""

    def __init__(self, sensor: Any) -> None:
        given = {name: getattr(sensor, name) for name in sensor.template_fields}
        self._undecided = unsettled(given)
        self._values = {name: value for name, value in given.items() if name not in self._undecided}
        self._problems = Problems()

    def value(self, name: str) -> Any:
        """``None`` where a template decides, and where the sensor has no such field."""
        return self._values.get(name)

    @property
    def scope(self) -> ScopeParameters:
        return ScopeParameters(**{name: self.value(name) for name in ScopeParameters.__dataclass_fields__})

    def check(self, parse: Callable[[], object], *parameters: str) -> None:
        """Keep the problems of an ``InvalidRequest`` that ``parse`` raises, which depend on ``parameters``."""
        self._problems.take_all(parse, *parameters)

    def take(self, parameter: str, parse: Callable[[], object]) -> None:
        """Keep the sentence of a ``ValueError`` that ``parse`` raises."""
        self._problems.take(parameter, parse, None)

    def check_what_all_have(self) -> None:
        """Topics, group, pipeline and work store. Which group it is the connection may say."""
        self.check(lambda: parse_scope(self.scope))
        self.check_work_store()

    def check_work_store(self) -> None:
        work_store = self.value("work_store")
        if work_store is not None:
            self.check(lambda: location_of(str(work_store)), "work_store")

    @property
    def problems(self) -> list[str]:
        """What no template can put right."""
        return self._problems.without(self._undecided)
