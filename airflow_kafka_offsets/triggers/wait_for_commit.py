"""The wait of ``BatchCommittedSensor`` in the triggerer: it reads a pipeline's log, and asks Kafka only for a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.batch.committed_so_far import look_at_commits
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import listed
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.request.commit_target import target_from_dict
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of


class BatchCommittedTrigger(WaitingTrigger):
    """Fires ``{"pipeline_id": …, "batch": …}`` once the pipeline has committed up to ``target``.

    :param target: what :func:`~airflow_kafka_offsets.request.commit_target.target_to_dict` gives.
    :param topics: which topics a time is about; none: all of the pipeline's position.
    :param pace: ``poke_interval``, ``until_ms``, ``silent_fail``: those of :class:`WaitingTrigger`.
    """

    def __init__(
        self,
        *,
        kafka_config_id: str,
        pipeline_id: str,
        target: Mapping[str, Any],
        topics: Sequence[str] = (),
        work_store: str | None = None,
        **pace: Any,
    ) -> None:
        super().__init__(kafka_config_id, **pace)
        self.pipeline_id = pipeline_id
        self.target = dict(target)
        self.topics = list(topics)
        self.work_store = work_store

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("kafka_config_id", "pipeline_id", "target", "topics", "work_store")
        return (
            "airflow_kafka_offsets.triggers.wait_for_commit.BatchCommittedTrigger",
            {**{name: getattr(self, name) for name in names}, **self.pace},
        )

    @property
    def waits_for(self) -> str:
        return f"{self.kafka_config_id} {self.work_store}"

    def look(self) -> dict[str, Any] | NotYet:
        """The key of the newest batch that is committed, or what is missing."""
        config = kafka_hook(self.kafka_config_id)
        pipeline = PipelineLog(configured_work_store(self.work_store), self.pipeline_id)
        key, missing = look_at_commits(
            target_from_dict(self.target),
            pipeline,
            lambda: cluster_of(self.kafka_config_id, config.client_config),
            self.topics,
            now_ms(),
        )
        return NotYet(listed(missing)) if missing else {"pipeline_id": self.pipeline_id, "batch": key}
