"""The task that merges committed batches into an entity table."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.operators.commit import given_of, name_batch
from airflow_kafka_offsets.operators.submit import PACKAGED_JOB, SparkSubmitBatchOperator

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import Given
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

MERGE_JOB = str(Path(PACKAGED_JOB).with_name("merge_batches.py"))


class MergeOperator(SparkSubmitBatchOperator):
    """``SparkSubmitBatchOperator`` behind the commit: the batch's job object names the entity table.

    It reads the sink's table and not Kafka. Each asset of ``outlets`` gets an event whose extra has the ``batch_key``.

    :param fast_start: as of ``SparkSubmitBatchOperator``; off, because an entity table may be large.
    """

    def __init__(self, *, plan: Mapping[str, Any] | Any, fast_start: bool = False, **kwargs: Any) -> None:
        super().__init__(plan=plan, application=MERGE_JOB, fast_start=fast_start, **kwargs)

    def execute(self, context: Any) -> None:
        super().execute(context)
        name_batch(self, context, given_of(self.plan).key)

    def _needs_job(self, given: Given) -> bool:
        return True

    def _kafka(self, given: Given, configured: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        return nullcontext({})

    def _lineage_of(self, given: Given, log: PipelineLog, *, is_over: bool) -> Any:
        from airflow_kafka_offsets.hooks.lineage import lineage_of_merge

        return lineage_of_merge(log, given.job)
