# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The tasks that merge committed batches into an entity table: by ``spark-submit`` and over Spark Connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_kafka_offsets.hooks.spark_installation import JOBS
from airflow_kafka_offsets.operators.commit import given_of, name_batch, require_partitions
from airflow_kafka_offsets.operators.connect import DriverStore, SparkConnectBatchOperator
from airflow_kafka_offsets.operators.spark_task import BatchTask
from airflow_kafka_offsets.operators.submit import SparkSubmitBatchOperator

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import PlanReference
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

MERGE_JOB = str(JOBS / "merge_batches.py")


class _BehindTheCommit(BatchTask, BaseOperator):
    """It reads the sink's table and not Kafka. The batch's job object names the entity table.

    Each asset of ``outlets`` gets an event whose extra has the ``batch_key``.

    :param partitions: as in ``CommitOffsetsOperator``.
    """

    is_behind_the_commit = True

    def __init__(self, *, partitions: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.partitions = require_partitions(partitions)

    def execute(self, context: Any) -> None:
        super().execute(context)
        name_batch(self, context, given_of(self.plan))

    def needs_job(self, given: PlanReference) -> bool:
        return True

    def _kafka(self, given: PlanReference, configured: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        return nullcontext({})

    def _lineage_of(self, given: PlanReference, log: PipelineLog, *, is_over: bool) -> Any:
        from airflow_kafka_offsets.hooks.lineage import lineage_of_merge

        return lineage_of_merge(log, given.job)


class MergeOperator(_BehindTheCommit, SparkSubmitBatchOperator):
    """``SparkSubmitBatchOperator`` behind the commit.

    :param fast_start: as in ``SparkSubmitBatchOperator``; off, because an entity table may be large.
    """

    def __init__(self, *, plan: Mapping[str, Any] | Any, fast_start: bool = False, **kwargs: Any) -> None:
        super().__init__(plan=plan, application=MERGE_JOB, fast_start=fast_start, **kwargs)


class ConnectMergeOperator(_BehindTheCommit, SparkConnectBatchOperator):
    """``SparkConnectBatchOperator`` behind the commit. The next batch may be written meanwhile."""

    def _shares_session(self, given: PlanReference) -> str:
        return f"{given.pipeline}/{given.key}"

    def _job(self, spark: Any, arguments: Sequence[str], store: DriverStore) -> None:
        from airflow_kafka_offsets.spark.merge import merge_batches

        merge_batches(spark, arguments, store)
