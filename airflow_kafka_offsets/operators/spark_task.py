# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What the Spark tasks of a batch have in common, however their job runs."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.hooks.run import failing_at_once
from airflow_kafka_offsets.operators.commit import given_of, log_of
from airflow_kafka_offsets.operators.lineage import TellsLineage
from airflow_kafka_offsets.operators.links import PageLink, SparkLink

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import PlanReference


class BatchTask(TellsLineage, ABC):
    """For operators that run the job of a plan, unless the batch is written and its records are gone from Kafka."""

    log: Any
    is_behind_the_commit = False
    operator_extra_links: Collection[Any] = (PageLink(), SparkLink())

    def execute(self, context: Any) -> None:
        run_batch(self, context)

    @abstractmethod
    def run_job(self, given: PlanReference, context: Any) -> None: ...

    def needs_job(self, given: PlanReference) -> bool:
        from airflow_kafka_offsets.engine.commit import needs_job
        from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

        with KafkaOffsetsHook(given.kafka_config_id).open_cluster() as cluster:
            return needs_job(given, log_of(given), cluster)


def run_batch(task: BatchTask, context: Any) -> None:
    """Run the Spark job of a task's plan, if it needs one."""
    with failing_at_once(context), _environment_of_this_task():
        given = given_of(task.plan)
        for link in task.operator_extra_links:  # Airflow itself pushes them when the task ends
            context["ti"].xcom_push(key=link.xcom_key, value=link.get_link(task, ti_key=context["ti"]))
        if task.needs_job(given):
            task.run_job(given, context)
        else:
            task.log.info("Batch %s is written: no job is started.", given.key)


@contextmanager
def _environment_of_this_task() -> Iterator[None]:
    """One process may run several tasks, as ``DAG.test`` does: the next one must not find this one's variables."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
