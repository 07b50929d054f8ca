"""Commits as tests need them: without a comparison, and interrupted at a moment of one's choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.broker.protocol import Fencing, OffsetCommitter
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition


def commit(
    cluster: OffsetCommitter,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    fencing: Fencing = "compare",
) -> None:
    with cluster.open_commit(group_id, fencing) as opened:
        opened.send(offsets)
        opened.commit()


@dataclass
class Interrupted:
    """A cluster where something happens at one moment of each commit."""

    cluster: Any
    before_second_look: Any = None
    before_commit: Any = None
    after_commit: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)

    def describe_group(self, group_id: str) -> Any:
        found = self.cluster.describe_group(group_id)
        if self.before_second_look:
            self.before_second_look()
        return found

    @contextmanager
    def open_commit(self, group_id: str, fencing: Fencing) -> Iterator[Any]:
        with self.cluster.open_commit(group_id, fencing) as opened:
            yield _Commit(opened, self.before_commit, self.after_commit)


@dataclass
class _Commit:
    opened: Any
    before_commit: Any
    after_commit: Any

    def send(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.opened.send(offsets)

    def commit(self) -> None:
        if self.before_commit:
            self.before_commit()
        self.opened.commit()
        if self.after_commit:
            self.after_commit()
