"""Whether the DAG's next run is to follow at once: ``catch_up=True``, as ``availableNow`` goes on through its caps.

It does after a batch that left something on purpose: its cap was hit, or it was planned by an earlier run, with that
one's ends. It is courtesy, not safety: the run that follows is one like every other, and finds the log as it is.

- Once for one batch: the run's id has the batch's key. So a commit that is retried after a crash, or cleared, asks for
  the same run again, and Airflow has it already. A commit that dies and is not retried leaves the rest to the schedule.
- Only by the run that committed the batch, and while it is the newest. Where a second run, or a person's reset, has
  gone on from it, there is a later batch, and whoever does that one sees to what comes after. A late driver changes
  nothing: it finds its split verified, or another plan, and stops.
- It ends. The first of these runs sees what is left, and each that follows is told how much of that is still to be read
  (``target``). A run that finds nothing new has no batch, and asks for none. What arrives meanwhile is the schedule's.
- Not for windows, nor for a batch that ends by time: a run without a data interval has no such end. Not in a backfill.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.offsets.model import Actor
from airflow_kafka_offsets.offsets.request.modes import UntilTimestamp
from airflow_kafka_offsets.pipeline.commit import CommitOutcome
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog


@dataclass(frozen=True, slots=True)
class NextRun:
    """
    :ivar run_id: one for one batch.
    :ivar target: how many offsets this run and those that follow it are to read.
    """

    run_id: str
    target: int


def next_run(
    outcome: CommitOutcome, pipeline: PipelineLog, me: Actor, left: int | None, target: int | None
) -> NextRun | str:
    """The run that is to follow at once; or why none is, a sentence.

    :param me: the run's resolve task, which has the batch.
    :param left: offsets that have come since the batch was planned, or were left by its cap; ``None``: not known.
    :param target: what this run was told, if it is such a run itself.
    """
    batch, plan = outcome.batch, outcome.plan
    if batch is None or plan is None or plan.batch is None or plan.empty:
        return "this one has read nothing"
    if plan.window or plan.bounded_mode == UntilTimestamp.name:
        return "this one ends by time, which is its data interval's"
    carried = plan.backlog.carried_over if plan.backlog else 0
    is_older = me.run is None or plan.run is None or not plan.run.is_same_dag_run(me.run)
    if not carried and not is_older:
        return "its batch had all that was there when it was planned"
    if not left and (left is not None or not carried):
        return "nothing is left in Kafka" if left is not None else "what is left in Kafka is not known"
    if batch.log.committed is None or batch.log.committed.by.run != me.run or not pipeline.is_newest(batch):
        return "another run has gone on from here"
    rest = carried if left is None else left
    if target is not None:
        rest = min(rest, target - plan.record_count_upper_bound)
    if rest <= 0:
        return "what the first of these runs has left is read; what has come since is the next scheduled run's"
    return NextRun(f"catch_up__{plan.batch.key}", rest)
