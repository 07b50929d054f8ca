"""What the work store knows of one plan's commit, and what it keeps of it: the checkpoint and the receipt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.errors import CommitConflict, StoreUnavailable
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint, checkpoint_after
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.runs import receipts, store_receipt


@dataclass(frozen=True)
class CommitRecord:
    """What the work store knows of a plan's commit: its receipt, and where the chain of checkpoints is."""

    store: WorkStore
    chain: CheckpointChain | None
    newest: Checkpoint | None
    own: bool
    parent_is_newest: bool

    @property
    def gone_on(self) -> bool:
        """The chain is not where the plan found it any more."""
        return self.newest is not None and not self.parent_is_newest

    @classmethod
    def of(cls, plan: OffsetPlan, store: WorkStore, chain: CheckpointChain | None) -> CommitRecord:
        newest = chain.newest() if chain else None
        receipt = plan.run is not None and plan.plan_id in receipts(store, plan.run)
        parent_is_newest = newest is not None and newest.id == plan.parent
        own = receipt or (chain is not None and not parent_is_newest and chain.holds(plan))
        return cls(store, chain, newest, own, parent_is_newest)

    def require_parent_or_own(self, plan: OffsetPlan, *, checkpoint_only: bool = False) -> None:
        """The chain must still be where the plan found it: else another run of this pipeline has gone on.

        :raises CommitConflict: naming that run.
        """
        if self.newest is None and plan.parent is not None and checkpoint_only:
            raise StoreUnavailable(
                f"Cannot keep a checkpoint in the work store {self.store.uri}",
                f"plan {plan.plan_id} goes on from checkpoint {plan.parent}, and there is none of this pipeline",
                "Use the work store that the plan was made in, or restore its checkpoints folder.",
            )
        if self.newest is None or self.parent_is_newest or self.own:
            return
        raise CommitConflict(
            [f"plan {plan.plan_id} goes on from checkpoint {plan.parent}; the newest is of {self.newest.writer}"],
            "This pipeline's position has moved since this plan was made, and nothing was committed now. A new run "
            "goes on from there, and so does this one if it is cleared with re_plan.",
        )

    def keep(self, plan: OffsetPlan, group_now: Mapping[TopicPartition, int | None]) -> None:
        """The checkpoint, then the receipt; a repeat adds nothing.

        In this order: a receipt whose checkpoint was never written would vouch for a commit that another run has gone
        past, once the group's mark has expired. A checkpoint without its receipt is found by its plan's id.
        """
        self._keep_checkpoint(plan, group_now)
        if plan.run is not None:
            store_receipt(self.store, plan.run, plan)

    def _keep_checkpoint(self, plan: OffsetPlan, group_now: Mapping[TopicPartition, int | None]) -> None:
        if self.chain is None or self.newest is None or not self.parent_is_newest:
            return
        added = self.chain.append(checkpoint_after(plan, self.newest, group_now))
        if not added and not self.chain.holds(plan):  # a run that found this commit may have repaired the chain
            raise CommitConflict(
                [f"plan {plan.plan_id}: another checkpoint was written at the same moment"],
                "This one was not. Where the plan's offsets are in the group already, the next run finds them there or "
                "says that the group moved; else it goes on from that other checkpoint.",
            )
