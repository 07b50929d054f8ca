"""The sentences of a task's log: what the run does and why, and at the end what it did.

Only what is known is said: that another run failed, and in which task, where Airflow says so; else that it did not
commit the batch.
"""

from __future__ import annotations

from airflow_kafka_offsets.offsets.batch.key import number_of
from airflow_kafka_offsets.offsets.batch.log import Actor, BatchLog, Committed, Taken
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.plan.table import counted, plan_in_words
from airflow_kafka_offsets.offsets.reads.verify import PROVED
from airflow_kafka_offsets.offsets.request.times import iso
from airflow_kafka_offsets.offsets.window.claims import claim_of
from airflow_kafka_offsets.pipeline.commit import CommitOutcome
from airflow_kafka_offsets.pipeline.surroundings import Surroundings

NOTHING_AT_FIRST = "has nothing to do: it found nothing when it was first tried"


def plans_next(plan: OffsetPlan, *, restart: str | None, adopts: bool, told_by_group: bool) -> str:
    """A new batch of the log, and where it starts.

    :param adopts: whether somebody has moved the group, and the plan goes on from there.
    :param told_by_group: whether the position is the one of the group's marks.
    """
    if restart is not None:
        return f"plans {plan.batch} under restart {restart!r}: {plan.startup_words} decides once more where it starts"
    if adopts:
        return f"plans {plan.batch} from the group's offsets: somebody has moved them, and on_group_moved adopts them"
    after = plan.batch.after if plan.batch else None
    if after is None:
        return f"plans {plan.batch}: it is the pipeline's first, so {plan.startup_words} decides where it starts"
    where = f"from where batch {number_of(after)} ended"
    if told_by_group:
        return f"plans {plan.batch} {where}, by the group's marks: the work store knows less than they do"
    anew = sorted({p.topic_partition.topic for p in plan.partitions if p.start_reason.startswith("topic re-created")})
    if anew:
        where += f", and from the start of {', '.join(anew)}, which was created again"
    return f"plans {plan.batch}, {where}"


def has_nothing(after: str | None) -> str:
    """:param after: the key of the batch that the position is after."""
    since = f"since batch {number_of(after)}" if after else "yet"
    return f"has nothing to do: nothing has come {since}"


def does(what: str, log: BatchLog, me: Actor, around: Surroundings) -> str:
    """An unfinished batch as it is.

    :param what: the batch, or the window, in words.
    """
    holder = log.holder
    if holder == me:
        return f"does {what}, which it took before and has not committed"
    return f"does {what} again: {holder}, which took it at {iso(_taken_at(log))}, {_how_it_ended(holder, me, around)}"


def does_once_more(what: str, committed: Committed, me: Actor, because: str = "redo asks for it") -> str:
    """A committed batch into the same place.

    :param because: why a run does what another one has committed.
    """
    if committed.by.run == me.run:
        return f"does {what} once more: it committed it before, and was started again"
    return f"does {what} once more: {committed.by} has committed it, and {because}"


def leaves(what: str, by: Actor) -> str:
    return f"leaves {what} as it is: it was done by {by}"


def leaves_for_good(what: str) -> str:
    return f"leaves {what} as it is: it is committed, and its records are gone from Kafka"


def first_sentence(said: str, waiting: int) -> str:
    """:param waiting: how many offsets have come since the batch was planned."""
    if not waiting:
        return f"This run {said}."
    have, wait = ("has", "waits") if waiting == 1 else ("have", "wait")
    return f"This run {said}; {counted(waiting, 'record')} that {have} come since {wait} for the next run."


def last_sentence(plan: OffsetPlan | None, splits: int) -> str:
    """What Spark is given now, and what no batch will read.

    :param splits: how many Spark jobs are started.
    """
    if plan is None:
        return "There is nothing to read, so no Spark job is started."
    jobs = (
        f"{counted(splits, 'Spark job')} read{'s' * (splits == 1)}"
        if splits
        else "No Spark job is started; the batch has"
    )
    left = f" {_capitalized(str(plan.backlog))}." if plan.backlog else ""
    return f"{jobs} {plan_in_words(plan)}.{left}"


def committed_sentence(outcome: CommitOutcome, left: int | None) -> str:
    """What was committed, and what is left.

    :param left: how many offsets have come since the batch was planned; ``None`` where that is not known.
    """
    plan = outcome.plan
    if plan is None:
        return "This run committed nothing: it had no batch to do, and all that comes is left for the next run."
    what = str(claim_of(plan) if plan.window else plan.batch)
    did = f"This run committed {what}" if outcome.by_this else f"{what.capitalize()} was committed before"
    if not plan.to_read() and outcome.proof != "scan":
        return f"{did}: {plan_in_words(plan)}; {_left(plan, left)}."
    proved = "no report was asked for" if outcome.proof is None else PROVED[outcome.proof]
    words = plan_in_words(plan, is_shown=outcome.proof not in (None, "scan"))
    return f"{did}: {words}; {proved}; {_left(plan, left)}."


def _capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _left(plan: OffsetPlan, left: int | None) -> str:
    if plan.window:
        return "a window leaves the pipeline's position as it is"
    if left is None:
        return "what is left in Kafka is not known now"
    if not left:
        return "nothing is left in Kafka for the next run"
    have, are = ("has", "is") if left == 1 else ("have", "are")
    return f"{counted(left, 'record')} that {have} come since {are} left for the next run"


def _taken_at(log: BatchLog) -> int:
    """In whole minutes: it is for people."""
    taken = [entry.at_ms for entry in log.later if isinstance(entry, Taken)]
    return (taken[-1] if taken else log.plan.resolved_at_ms) // 60_000 * 60_000


def _how_it_ended(holder: Actor, me: Actor, around: Surroundings) -> str:
    ours = holder.run is not None and holder.instance == around.instance
    of_this_run = ours and me.run is not None and holder.run is not None and holder.run.is_same_dag_run(me.run)
    failed = around.failed_tasks(holder.run) if ours and holder.run is not None and not of_this_run else []
    return f"failed in {', '.join(failed)}" if failed else "did not commit it"
