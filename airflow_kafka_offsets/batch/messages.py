"""The sentences of a task's log: what the run does and why, and at the end what it did.

Only what is known is said: that another run failed, and in which task, where Airflow says so; else that it did not
commit the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.entries import BatchLog
from airflow_kafka_offsets.log.verify_reads import ALL_ROWS, PROVED, Fates, Proof
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin
from airflow_kafka_offsets.plan.plan import Draft, Plan, number_of
from airflow_kafka_offsets.plan.plan_table import plan_in_words
from airflow_kafka_offsets.plan.window_claims import name_of
from airflow_kafka_offsets.request.times import iso, short_time

NOTHING_AT_FIRST = "has nothing to do: it found nothing when it was first tried"


def plans_next(
    draft: Draft, number: int, after: str | None, *, restart: str | None, adopts: bool, by_group: bool
) -> str:
    """A new batch of the log, and where it starts.

    :param number: of the batch; ``after``: the key of the batch that it goes on from.
    :param adopts: whether somebody has moved the group, and the plan goes on from there.
    :param by_group: whether the position is the one of the group's offsets.
    """
    if restart is not None:
        return (
            f"plans batch {number} under restart {restart!r}: {draft.asked.startup} decides once more where it starts"
        )
    if adopts:
        return f"plans batch {number} from the group's offsets: somebody has moved them, and the policy adopts them"
    if after is None:
        return f"plans batch {number}: it is the pipeline's first, so {draft.asked.startup} decides where it starts"
    where = f"from where batch {number_of(after)} ended"
    if by_group:
        return f"plans batch {number} {where}, by the group's offsets: the work store knows less than they do"
    anew = sorted({p.topic_partition.topic for p in draft.partitions if p.start_reason.startswith("topic re-created")})
    if anew:
        where += f", and from the start of {', '.join(anew)}, which was created again"
    return f"plans batch {number}, {where}"


def has_nothing(after: str | None) -> str:
    """:param after: the key of the batch that the position is after."""
    since = f"since batch {number_of(after)}" if after else "yet"
    return f"has nothing to do: nothing has come {since}"


def does(what: str, log: BatchLog, me: Actor, failed: Sequence[str]) -> str:
    """An unfinished batch as it is.

    :param what: the batch, or the window, in words.
    :param failed: the tasks of the holder's run that have failed, as far as that is known.
    """
    holder = log.holder
    if holder == me:
        return f"does {what}, which it took before and has not committed"
    ended = f"failed in {', '.join(failed)}" if failed else "did not commit it"
    return f"does {what} again: {holder}, which took it at {iso(log.held[1] // 60_000 * 60_000)}, {ended}"


def does_once_more(what: str, log: BatchLog, me: Actor, because: str) -> str:
    """A committed batch into the same place.

    :param because: why a run does what another one has committed.
    """
    if log.by.run == me.run:
        return f"does {what} once more: it committed it before, and was started again"
    return f"does {what} once more: {log.by} has committed it, and {because}"


def leaves(what: str, by: Actor) -> str:
    return f"leaves {what} as it is: it was done by {by}"


def leaves_for_good(what: str) -> str:
    return f"leaves {what} as it is: it is committed, and its records are gone from Kafka"


def gone(lines: Sequence[str]) -> list[str]:
    """Why a batch is planned anew: which records are gone; nothing where none are."""
    return [f"records are gone: {'; '.join(lines[:3])}"] if lines else []


def went(what: str, lines: Sequence[str]) -> str:
    return f"The records of {what} are gone: {'; '.join(lines)}"


def advance_or_stop(what: str, keep: str = "") -> str:
    """What can be done where an unfinished batch lacks records."""
    return (
        f'{what} {keep}Set policies={{"data_loss": "advance"}} to read what is left, in the DAG or for one run in its '
        "conf: "
        '{"kafka_offsets": {"policies": {"data_loss": "advance"}}}.'
    )


def first_sentence(sentence: str, waiting: int) -> str:
    """:param waiting: how many offsets have come since the batch was planned."""
    if not waiting:
        return f"This run {sentence}."
    return f"This run {sentence}; {counted(waiting, 'record', 'has')} come since, for the next run."


def last_sentence(plan: Draft | None, splits: int, *, is_new: bool = True) -> str:
    """What Spark is given now, what no batch will read, and what is left.

    :param splits: how many Spark jobs are started.
    :param is_new: whether it was planned now: what the logs held then is of no use later.
    """
    if plan is None:
        return "There is nothing to read, so no Spark job is started."
    jobs = (
        f"{counted(splits, 'Spark job')} read{'s' * (splits == 1)}"
        if splits
        else "No Spark job is started; the batch has"
    )
    left = f" {_capitalized(str(plan.found.backlog))}." if plan.found.backlog else ""
    return f"{jobs} {plan_in_words(plan)}.{left}{_beside(plan) if is_new else ''}"


def _beside(plan: Draft) -> str:
    """What the logs hold that the plan does not read, and when retention comes to what it reads."""
    held = sum(p.held_back or 0 for p in plan.partitions)
    backlog = plan.found.backlog.carried_over if plan.found.backlog else 0
    past = 0 if plan.asked.window else sum(p.past_end or 0 for p in plan.partitions) - backlog
    margins = [p.margin_ms for p in plan.to_read() if p.margin_ms is not None]
    return "".join(
        [
            f" {_capitalized(counted(past, 'record', 'is'))} at or after its end, for a later run." * bool(past),
            f" Open transactions hold back {counted(held, 'offset')}." * bool(held),
            f" {_capitalized(_until_retention(min(margins)))}." if margins else "",
        ]
    )


def _until_retention(margin_ms: int) -> str:
    return f"retention takes the first record in {short_time(margin_ms)} at the earliest"


def committed_sentence(
    plan: Plan | None, proof: Proof | None, left: LagAndMargin | None, *, by_this: bool, fates: Fates = ALL_ROWS
) -> str:
    """What was committed, and what is left.

    :param plan: ``None``: there was nothing to commit.
    :param left: how far the position is from the ends of the logs, all partitions together; ``None``: not asked.
    :param by_this: whether this run made the commit.
    """
    if plan is None:
        return "This run committed nothing: it had no batch to do, and all that comes is left for the next run."
    what = name_of(plan)
    did = f"This run committed {what}" if by_this else f"{_capitalized(what)} was committed before"
    if not plan.to_read() and proof not in ("scan", "merged"):
        return f"{did}: {plan_in_words(plan)}; {_left(plan, left)}."
    proved = "no report was asked for" if proof is None else PROVED[proof]
    words = plan_in_words(plan, is_shown=proof in ("rows", "compared"))
    return f"{did}: {'; '.join(filter(None, (words, str(fates), proved, _left(plan, left))))}.{_differently(fates)}"


def _differently(fates: Fates) -> str:
    """Which splits to do again, where not all were written with one schema; by whom, nobody knows but the user."""
    if len(fates.definitions) < 2:
        return ""
    groups = " and ".join(f"{', '.join(map(str, splits))}" for splits in fates.definitions.values())
    return (
        f" Its splits were written with different row definitions: {groups}. To write all of them with the newest, "
        "clear the run from its resolve task on."
    )


def _capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _left(plan: Draft, left: LagAndMargin | None) -> str:
    if plan.asked.window:
        return "a window leaves the pipeline's position as it is"
    if left is None or left.lag is None:
        return "what is left in Kafka is not known now"
    if not left.lag:
        return "nothing is left in Kafka for the next run"
    margin = "" if left.margin_ms is None else f"; {_until_retention(left.margin_ms)}"
    return f"{counted(left.lag, 'record', 'is')} left for the next run{margin}"
