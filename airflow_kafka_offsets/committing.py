"""The one way to a commit: plan + read reports + cluster → committed, or a refusal that has written nothing.

The order is the rule (DESIGN, Commit): open the fence, read the group (stable) and the checkpoint, compare, send,
describe the group and look a second time (at the reports too), commit, checkpoint, receipt, read back. The fence holds
off everybody who commits this way. A person's tool, or a consumer that joins, is not held off: the second look finds
what came before the commit, and reading back what came at the same moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, get_args

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import Fencing, OffsetCommitter, OffsetReader
from airflow_kafka_offsets.errors import (
    CommitConflict,
    CommitUnsettled,
    GroupActive,
    InvalidRequest,
    ReadNotVerified,
)
from airflow_kafka_offsets.offsets.commits import compare, recreated_since, why_not_mirrored
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.refusals import raise_refusals
from airflow_kafka_offsets.offsets.verify import verify_reads
from airflow_kafka_offsets.overview import describe_present
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain, chain_of
from airflow_kafka_offsets.stores.commit_record import CommitRecord
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.reads import latest_attempts, splits_left_over
from airflow_kafka_offsets.stores.runs import refuse_replaced
from airflow_kafka_offsets.stores.turns import IsAlive

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
CommitMode = Literal["on-success", "checkpoint-only", "never"]


class Cluster(OffsetReader, OffsetCommitter, Protocol):
    """Both halves of a cluster: what a commit asks, and what it writes."""


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What a commit did, or with a dry run would do.

    :ivar written: before → after of every partition that is written, also where the two are equal (that renews the
        offset's expiry: a group's offsets expire one by one).
    :ivar kept: partitions that are left alone, because the group went on from this very plan.
    :ivar not_committed: why the group was not touched at all, where that is as it should be.
    """

    written: Mapping[TopicPartition, tuple[int | None, int]]
    kept: tuple[TopicPartition, ...] = ()
    dry_run: bool = False
    not_committed: str | None = None


def commit_plan(
    client_config: Mapping[str, Any], plan: OffsetPlan, *, fencing: str = "transaction", dry_run: bool = False
) -> CommitOutcome:
    """Commit ``plan`` to its group without a work store: nothing shows that it was read, the caller vouches for that.

    :param fencing: ``transaction``, or ``compare`` where the transactional ACL is missing; see :func:`commit_run`.
    :raises RefusedError: the group is not where the plan found it, or is live. Nothing was written.
    :raises ClusterUnavailable: the cluster could not be asked, or did not take the write.
    """
    with KafkaCluster(client_config) as cluster:
        return commit_offsets(plan, cluster, fencing=parse_fencing(fencing), dry_run=dry_run)


def commit_run(
    plan: OffsetPlan,
    store: WorkStore,
    cluster: Cluster,
    *,
    commit_mode: str | None = None,
    require_report: bool = True,
    fencing: str = "transaction",
    dry_run: bool = False,
    is_alive: IsAlive | None = None,
) -> CommitOutcome:
    """Verify the run's read reports, commit its plan, keep the checkpoint, and leave a receipt beside the plan.

    :param commit_mode: ``on-success``, ``checkpoint-only`` (Flink's DISABLED: the group is left alone) or ``never``;
        default: ``never`` for a window plan, else ``on-success``. A window is mirrored ``on-success``: written where
        the group stands at its start and the pipeline has no checkpoint, else left, which the outcome explains.
    :param fencing: ``transaction`` (default): of two committers one is fenced off. ``compare``: the group is compared
        right before a plain write; between the two another commit can get through, which is found afterwards. One kind
        a group: the two do not see each other.
    :param dry_run: everything is compared and refused as it would be, and nothing is written, in the store neither.
    :param is_alive: whether another run is queued or running: it is waited for if it came first. ``None``: not known.
    :raises InvalidRequest: an unknown mode, or there is no group to commit to.
    :raises ReadNotVerified: the reports do not show that exactly this plan was read.
    :raises OverlappingRun: another run of this pipeline lives, and came first.
    """
    mode = parse_commit_mode(commit_mode) or ("never" if plan.window else "on-success")
    kind = parse_fencing(fencing)
    chain = chain_of(plan, store)

    def verify() -> None:
        refuse_replaced(store, plan)
        if require_report:
            _refuse_left_over(plan, store)
            verify_reads(plan, latest_attempts(store, plan, range(plan.splits)))

    def look_up_record() -> CommitRecord:
        return CommitRecord.of(plan, store, chain)

    verify()
    why_not = _why_not_at_all(plan, store, mode)
    if chain is not None and not why_not and not dry_run and not look_up_record().own:
        chain.turns.take(plan.run, is_alive)  # before the fence, which would cut off whoever came first
    if why_not:
        outcome = CommitOutcome({}, dry_run=dry_run, not_committed=why_not)
    elif mode == "checkpoint-only":
        outcome = _keep_checkpoint_only(plan, cluster, look_up_record(), dry_run, verify)
    else:
        outcome = commit_offsets(
            plan,
            cluster,
            fencing=kind,
            mirror=plan.window,
            dry_run=dry_run,
            look_up_record=look_up_record,
            verify=verify,
        )
    if chain is not None and plan.run is not None and not dry_run:
        chain.turns.end(plan.run)
    return outcome


def _why_not_at_all(plan: OffsetPlan, store: WorkStore, mode: CommitMode) -> str | None:
    """Why this commit has nothing to do, where that is as it should be."""
    if mode == "never":
        return "a window moves no group" if plan.window else "commit_mode is never"
    if mode != "on-success" or not plan.window or plan.checkpoint_id is None:
        return None
    if CheckpointChain(store, plan.cluster_id, plan.checkpoint_id).newest() is None:
        return None
    return f"pipeline {plan.checkpoint_id!r} has a checkpoint, and its runs move group {plan.group_id!r}"


def _refuse_left_over(plan: OffsetPlan, store: WorkStore) -> None:
    left_over = splits_left_over(store, plan)
    if left_over:
        raise ReadNotVerified(
            left_over,
            "Nothing was committed. Clear the run's resolve task with re_plan: its new plan starts those splits too.",
        )


def _keep_checkpoint_only(
    plan: OffsetPlan, cluster: Cluster, record: CommitRecord, dry_run: bool, verify: Callable[[], None]
) -> CommitOutcome:
    """The commit table with the newest checkpoint in the group's place: it has to be the plan's parent, or its own."""
    if record.chain is None:
        raise InvalidRequest(("commit_mode 'checkpoint-only' needs a plan with a checkpoint_id, and no window.",))
    record.require_parent_or_own(plan, checkpoint_only=True)
    topic_ids = _topic_ids(plan, cluster)
    raise_refusals(
        [r for p in plan.partitions if (r := recreated_since(plan, p, topic_ids.get(p.topic_partition.topic)))]
    )
    group = cluster.committed(plan.group_id, [p.topic_partition for p in plan.partitions]) if plan.group_id else {}
    verify()  # once more: as before a write to the group
    if not dry_run:
        record.keep(plan, {tp: commit.offset for tp, commit in group.items()})
    why = "commit_mode is checkpoint-only: the checkpoint holds the offsets"
    return CommitOutcome({}, not_committed=why, dry_run=dry_run)


class _NoRecord:
    """There is no work store: nothing is known of a plan, and nothing is kept."""

    own = False
    parent_is_newest = False
    gone_on = False

    def require_parent_or_own(self, plan: OffsetPlan) -> None:
        pass

    def keep(self, plan: OffsetPlan, group_now: Mapping[TopicPartition, int | None]) -> None:
        pass


def parse_commit_mode(value: str | None) -> CommitMode | None:
    """Flink's commit modes that a batch can have.

    :raises InvalidRequest: any other; for Flink's periodic mode with the reason why there is none.
    """
    if value is None or value in get_args(CommitMode):
        return value  # type: ignore[return-value]  # narrowed by the line above
    if "periodic" in value.lower():
        raise InvalidRequest(
            (
                f"commit_mode is {value!r}: a batch has no periodic commit. Flink's KAFKA_PERIODIC commits what was "
                "polled, on a timer, read or not; here offsets are committed once, after the reads were verified. "
                f"Use one of {', '.join(get_args(CommitMode))}.",
            )
        )
    raise InvalidRequest((f"commit_mode is {value!r}; use one of {', '.join(get_args(CommitMode))}.",))


def parse_fencing(value: str) -> Fencing:
    """:raises InvalidRequest: it is neither ``transaction`` nor ``compare``."""
    if value not in get_args(Fencing):
        raise InvalidRequest((f"fencing is {value!r}; use one of {', '.join(get_args(Fencing))}.",))
    return value  # type: ignore[return-value]  # narrowed by the lines above


def _once_more_if_unsettled(commit: Callable[P, T]) -> Callable[P, T]:
    """To compare once more tells whether a commit arrived whose answer leaves it open."""

    @wraps(commit)
    def settled(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return commit(*args, **kwargs)
        except CommitUnsettled as unsettled:
            log.warning("%s (%s). Comparing once more tells whether it arrived.", unsettled.what, unsettled.reason)
            return commit(*args, **kwargs)

    return settled


@_once_more_if_unsettled
def commit_offsets(
    plan: OffsetPlan,
    cluster: Cluster,
    *,
    fencing: Fencing = "transaction",
    mirror: bool = False,
    dry_run: bool = False,
    look_up_record: Callable[[], CommitRecord | _NoRecord] = _NoRecord,
    verify: Callable[[], None] = lambda: None,
) -> CommitOutcome:
    """Compare and write; DESIGN's table decides each partition, and one refusal refuses all.

    :param mirror: whether ``plan`` may be a window, whose pipeline is known to have no checkpoint.
    :param look_up_record: asked inside of the fence: what the work store knows of this plan's commit.
    :param verify: raises if the plan is not, or no longer, shown to have been read: a cleared Spark task may have begun
        to write again since the first look.
    """
    group_id = _group_of(plan, mirror)
    partitions = [p.topic_partition for p in plan.partitions]
    topic_ids = _topic_ids(plan, cluster)
    # A fence opened for show would abort somebody's commit.
    with nullcontext() if dry_run else cluster.open_commit(group_id, fencing) as commit:
        before = cluster.committed(group_id, partitions)
        if plan.window and (why := why_not_mirrored(plan, before, topic_ids)):
            return CommitOutcome({}, dry_run=dry_run, not_committed=why)
        record = look_up_record()
        to_write, kept = compare(
            plan,
            before,
            topic_ids,
            own_commit_on_record=record.own,
            parent_is_newest=record.parent_is_newest,
            gone_on=record.gone_on,
        )
        record.require_parent_or_own(plan)
        outcome = CommitOutcome(
            {tp: (before[tp].offset if tp in before else None, commit.offset) for tp, commit in to_write.items()},
            tuple(kept),
            dry_run,
        )
        if commit is None:
            _refuse_live_group(group_id, cluster)
            return outcome
        commit.send(to_write)
        _refuse_live_group(group_id, cluster)
        # Not stable: this commit's own offsets are pending, and would be waited for.
        _refuse_movement(group_id, before, cluster.committed(group_id, partitions, stable=False))
        verify()
        commit.commit()
        record.keep(plan, {p.topic_partition: p.end_offset for p in plan.partitions})
    _read_back(group_id, to_write, cluster)
    return outcome


def _group_of(plan: OffsetPlan, mirror: bool) -> str:
    if plan.window and not mirror:
        raise InvalidRequest((f"Plan {plan.plan_id} is a window: it neither reads nor moves a group's offsets.",))
    if plan.group_id is None:
        raise InvalidRequest(
            (
                f"Plan {plan.plan_id} has no consumer group to commit to: "
                "give group_id when it is made, or set group.id in the Kafka connection.",
            )
        )
    return plan.group_id


def _topic_ids(plan: OffsetPlan, cluster: OffsetReader) -> dict[str, str | None]:
    # A topic that was deleted is absent, and its partitions are refused one by one (row 1).
    description = describe_present(cluster, {p.topic_partition.topic for p in plan.partitions})
    if description is None:
        return {}
    if description.cluster_id != plan.cluster_id:
        raise InvalidRequest(
            (
                f"Plan {plan.plan_id} was made on cluster {plan.cluster_id}, and this connection leads to cluster "
                f"{description.cluster_id}. Use the connection that the plan was made with.",
            )
        )
    return {name: topic.topic_id for name, topic in description.topics.items()}


def _refuse_live_group(group_id: str, cluster: OffsetCommitter) -> None:
    group = cluster.describe_group(group_id)
    # Some brokers (Azure Event Hubs) report an empty group as Dead; both are without members (PEERS, section 3).
    if group.members or group.state not in ("Empty", "Dead"):
        raise GroupActive(group_id, group.state, group.members)


def _refuse_movement(
    group_id: str, before: Mapping[TopicPartition, CommittedOffset], now: Mapping[TopicPartition, CommittedOffset]
) -> None:
    moved = [
        f"{tp}: the group moved from {_shown(before.get(tp))} to {_shown(now.get(tp))} while this commit was prepared"
        for tp in sorted(before.keys() | now.keys())
        if before.get(tp) != now.get(tp)
    ]
    if moved:
        raise CommitConflict(moved, f"Nothing was committed. Stop what else commits to group {group_id!r}, then retry.")


def _read_back(group_id: str, written: Mapping[TopicPartition, CommittedOffset], cluster: OffsetReader) -> None:
    found = cluster.committed(group_id, list(written)) if written else {}
    differing = [
        f"{tp}: {written[tp].offset} was written, and the group holds {_shown(found.get(tp))}"
        for tp in sorted(written)
        if found.get(tp) is None or found[tp].offset != written[tp].offset
    ]
    if differing:
        raise CommitConflict(
            differing,
            f"Somebody else committed to group {group_id!r} at the same moment. Find out who; the next run goes on "
            "from this plan's checkpoint, or from the group, as on_group_moved says.",
        )


def _shown(committed: CommittedOffset | None) -> str:
    return "no commit" if committed is None else str(committed.offset)
