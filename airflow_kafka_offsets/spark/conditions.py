# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Conditions on all rows of a batch together: ``count(*) = count(DISTINCT id)``. Null passes, as in SQL's CHECK."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import ConditionNotMet, InvalidJob

_CALLS = re.compile(r"\w+\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


class Conditions:
    """
    :param given: SQL conditions over aggregates, by their names.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given
        self._calls = list(dict.fromkeys(call for text in given.values() for call in _CALLS.findall(text)))
        self._columns = [f.expr(text).alias(text) for text in dict.fromkeys([*given.values(), *self._calls])]

    def analyse(self, rows: DataFrame) -> None:
        """:raises InvalidJob: one is no condition; and what Spark raises on one that is wrong."""
        if not self.given:
            return
        kinds = {column.name: column.dataType for column in rows.agg(*self._columns).schema}
        if wrong := [name for name, text in self.given.items() if not isinstance(kinds[text], BooleanType)]:
            cause = f"{wrong[0]!r} is {kinds[self.given[wrong[0]]].simpleString()}"
            raise InvalidJob("Cannot ensure a condition", cause, "Compare it: Rows(ensure={…: 'count(*) > 0'})")

    def observe(self, rows: DataFrame) -> tuple[DataFrame, Observation | None]:
        """The same rows, observed as they are written; ``None``: Spark does not observe such an aggregate."""
        if not self.given:
            return rows, None
        observation = Observation()
        try:
            observed = rows.observe(observation, *self._columns)
            observed.schema  # noqa: B018, Spark Connect analyses a frame when it is asked for this
        except AnalysisException:
            return rows, None
        return observed, observation

    def measure(self, rows: DataFrame) -> Mapping[str, Any]:
        """What an observation would have, by a read of its own."""
        return rows.agg(*self._columns).collect()[0].asDict() if self.given else {}

    def check(self, batch: Batch, found: Mapping[str, Any], where: str) -> None:
        """
        :param found: as measured or observed.
        :param where: where the rows are now, in words.
        :raises ConditionNotMet: with the values.
        """
        broken = [f"{name!r} is not met: {text}" for name, text in self.given.items() if found[text] is False]
        if broken:
            values = ", ".join(f"{call} = {found[call]}" for call in self._calls)
            remedy = f"{where}. Correct Rows(…) or what is produced, and clear the run from resolve on"
            raise ConditionNotMet(f"Cannot commit {batch}", f"{'; '.join(broken)} ({values})", remedy)
