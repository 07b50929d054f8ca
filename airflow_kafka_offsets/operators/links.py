# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The buttons of a task in Airflow's pages that lead to the page of its pipeline, and to the pages of its driver."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from airflow_kafka_offsets.names import PAGE


class PageLink(BaseOperatorLink):
    """The page shows the batch of the task's run."""

    name = "Kafka offsets"
    place = ""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        root = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")  # Airflow may be served below a path
        run, task = quote(ti_key.run_id, safe=""), quote(ti_key.task_id, safe="")
        return f"{root}{PAGE}/dags/{quote(ti_key.dag_id, safe='')}{self.place}?run={run}&task={task}"


class SparkLink(PageLink):
    """Spark's own pages are there while the driver runs."""

    name = "Spark UI"
    place = "/spark"
