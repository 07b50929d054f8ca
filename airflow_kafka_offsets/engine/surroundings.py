# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What the engine asks Airflow. The promise does not depend on the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from airflow_kafka_offsets.kafka_values import Planned, RunKey


class Airflow(Protocol):
    """The Airflow that a task runs in."""

    def is_running(self, run: RunKey) -> bool:
        """Whether one of the run's tasks from resolve to commit is running, or waits for a retry."""

    def last_planned(self) -> Planned | None:
        """What this task planned or retried last, by its XComs; ``None``: not known."""

    def triggering_user(self) -> str | None:
        """Who triggered this run; ``None``: a schedule, or not known."""

    def ways_past(self) -> str:
        """What in the DAG would keep a person's run from starting, in a sentence; empty: nothing."""

    def job(self, topics: Collection[str]) -> Mapping[str, Any] | None:
        """The job object by which this run's Spark job makes rows; ``None``: the job is the user's own."""


class NoAirflow:
    """At a terminal: no run is known."""

    def is_running(self, run: RunKey) -> bool:
        return False

    def last_planned(self) -> Planned | None:
        return None

    def triggering_user(self) -> str | None:
        return None

    def ways_past(self) -> str:
        return ""

    def job(self, topics: Collection[str]) -> Mapping[str, Any] | None:
        return None
