"""A cluster whose commits are interrupted at a moment of the test's choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition


@dataclass
class Interrupted:
    """A cluster where something happens before or after each commit."""

    cluster: Any
    before_commit: Any = None
    after_commit: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if self.before_commit:
            self.before_commit()
        self.cluster.commit_offsets(group_id, offsets)
        if self.after_commit:
            self.after_commit()
