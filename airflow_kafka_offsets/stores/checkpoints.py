"""The chain of checkpoints of each pipeline.

::

    checkpoints/<cluster_id>/<checkpoint_id>/checkpoint.<n>.json     the newest valid one counts

A checkpoint is appended only after the one that it names as its parent: the next number is created once, so that of two
writers one learns that the other was there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from airflow_kafka_offsets.errors import NoPosition, StoreUnavailable
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.stores.objects import Numbered, WorkStore, safe_name
from airflow_kafka_offsets.stores.turns import Turns


@dataclass(frozen=True)
class CheckpointChain:
    """The checkpoints of one pipeline on one cluster."""

    store: WorkStore
    cluster_id: str
    checkpoint_id: str

    @property
    def _folder(self) -> str:
        return f"checkpoints/{safe_name(self.cluster_id)}/{safe_name(self.checkpoint_id)}"

    @property
    def turns(self) -> Turns:
        return Turns(self.store, self._folder)

    def newest(self) -> Checkpoint | None:
        """The checkpoint that counts; half-written ones are passed over, and said.

        :raises StoreUnavailable: it is valid, and of a version that is not known here, or another pipeline's.
        """
        return next(self.newest_first(), None)

    def required(self) -> Checkpoint:
        """The newest one, for somebody who needs one.

        :raises NoPosition: there is none.
        """
        newest = self.newest()
        if newest is None:
            raise NoPosition(
                [f"There is no checkpoint of {self.checkpoint_id!r} on cluster {self.cluster_id}"],
                f"Its first run writes it. Looked in the work store {self.store.uri}: use the pipeline's own, and its "
                "checkpoint_id (by default group_id/dag_id/task_id).",
            )
        return newest

    def newest_first(self) -> Iterator[Checkpoint]:
        """The valid ones, each read when it is asked for; raises as :meth:`newest`."""
        return map(self._checked, self.store.newest_first(self._folder, "checkpoint"))

    def _checked(self, found: Numbered) -> Checkpoint:
        try:
            checkpoint = Checkpoint.from_dict(found.value)
        except ValueError as error:
            raise self._refused(found.name, str(error)) from error
        if (checkpoint.cluster_id, checkpoint.checkpoint_id) != (self.cluster_id, self.checkpoint_id):
            raise self._refused(found.name, f"it is of pipeline {checkpoint.checkpoint_id} on {checkpoint.cluster_id}")
        return checkpoint

    def append(self, checkpoint: Checkpoint) -> bool:
        """Add it after its parent; ``False`` if the newest is another one by now."""
        numbers = self.store.numbers(self._folder, "checkpoint")
        newest = self.newest()
        if (newest.id if newest else None) != checkpoint.parent:
            return False
        name = f"{self._folder}/checkpoint.{max(numbers, default=0) + 1}.json"
        return self.store.create(name, checkpoint.to_dict())

    def holds(self, plan: OffsetPlan) -> bool:
        """Whether a checkpoint was written for this very plan, with all of its ends.

        One that was made good from a commit which landed in part, when the plan was lost, has some of them only.
        """
        ends = {p.topic_partition: p.end_offset for p in plan.partitions}
        since = takewhile(lambda checkpoint: checkpoint.id != plan.parent, self.newest_first())
        return any(
            checkpoint.plan_id == plan.plan_id
            and all(tp in checkpoint.offsets and checkpoint.offsets[tp].offset == end for tp, end in ends.items())
            for checkpoint in since
        )

    def _refused(self, name: str, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"Cannot use {name} in the work store {self.store.uri}",
            reason,
            "Use the version of airflow-kafka-offsets that wrote it, or another checkpoint_id.",
        )


def chain_of(plan: OffsetPlan, store: WorkStore) -> CheckpointChain | None:
    """The chain that ``plan`` goes on from; ``None`` where it has none: a window, or no ``checkpoint_id``."""
    if plan.window or plan.checkpoint_id is None:
        return None
    return CheckpointChain(store, plan.cluster_id, plan.checkpoint_id)
