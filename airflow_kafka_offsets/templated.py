# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A frozen value whose strings may be templates.

Airflow renders it into a new value and shows it as it was written. A subclass is
``@dataclass(frozen=True, slots=True, repr=False)``. Nothing of Airflow is imported here.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Self


class Templated:
    """The base of all config objects that operators take."""

    __slots__ = ()

    def resolve(self, context: Any) -> Self:
        """A copy with rendered fields. The name is Airflow's: ``Templater.render_template`` calls ``resolve``."""
        render = context["task"].render_template
        rendered = {name: render(value, context) for name, value in fields_of(self)}
        return dataclasses.replace(self, **rendered)  # type: ignore[type-var]

    def __repr__(self) -> str:
        """The value as a DAG writes it, without fields that have their default."""
        given = [
            f"{f.name}={value!r}"
            for f, (_, value) in zip(dataclasses.fields(self), fields_of(self), strict=True)  # type: ignore[arg-type]
            if value is not f.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


def fields_of(value: Templated) -> Iterator[tuple[str, Any]]:
    return ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))  # type: ignore[arg-type]


def plain(value: Any) -> Any:
    """Config objects as tuples, in which Airflow finds XComArgs: ``XComArg.apply_upstream_relationship(task, …)``."""
    return tuple(plain(v) for _, v in fields_of(value)) if isinstance(value, Templated) else value


_PLAIN = (bool, int, float, str, bytes, datetime.date, datetime.timedelta, type(None), type)


def is_settled(value: Any) -> bool:
    """Whether the value is known when the DAG is parsed: no template, and no object of Airflow's (an XComArg)."""
    if isinstance(value, str):
        return not any(begin in value for begin in ("{{", "{%", "{#"))
    if isinstance(value, Templated):
        return all(is_settled(v) for _, v in fields_of(value))
    if isinstance(value, Mapping):
        return all(map(is_settled, value.keys())) and all(map(is_settled, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(is_settled, value))
    return isinstance(value, _PLAIN)
