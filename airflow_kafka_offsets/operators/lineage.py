# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The methods that Airflow's OpenLineage provider looks for, where it is installed and switched on.

It calls them in a process of its own, and a failure there is a warning in the task's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import PlanReference
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog


class TellsLineage:
    """For operators that have the XCom ``plan``.

    :cvar writes: whether the output belongs to the task.
    """

    plan: Any = None
    writes = True

    def get_openlineage_facets_on_start(self) -> Any:
        return self._lineage(is_over=False)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        return self._lineage(is_over=True)

    def _lineage(self, *, is_over: bool) -> Any:
        from airflow.providers.openlineage.extractors import OperatorLineage

        from airflow_kafka_offsets.operators.commit import given_of, log_of

        if not isinstance(self.plan, Mapping):
            return OperatorLineage()
        given = given_of(self.plan)
        return self._lineage_of(given, log_of(given), is_over=is_over)

    def _lineage_of(self, given: PlanReference, log: PipelineLog, *, is_over: bool) -> Any:
        from airflow_kafka_offsets.hooks.lineage import known_servers, lineage_of

        return lineage_of(given, log, known_servers(self.plan), writes=self.writes, is_over=is_over)
