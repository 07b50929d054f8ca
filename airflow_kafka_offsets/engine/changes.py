"""What changed around a pipeline is refused until a person acknowledges it (STATE.md, rule 9)."""

from __future__ import annotations

from airflow_kafka_offsets.engine.by_hand import acknowledge
from airflow_kafka_offsets.engine.group import foreign, later_marks, refuse_lost_log, refuse_moved, refuse_older_log
from airflow_kafka_offsets.engine.look import Look, other_cluster
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.errors import OtherKind
from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.request import Request


def refuse_other_kind(want: Request, log: PipelineLog, newest: Batch | None) -> None:
    """:raises OtherKind: the pipeline is in sequence, and a window is asked for, or the reverse."""
    if newest is None:
        return
    is_window = newest.plan.kind == "window"
    if is_window != (want.window is not None):
        was, now = ("by window", "in sequence") if is_window else ("in sequence", "by window")
        raise OtherKind(
            f"Pipeline {log.pipeline_id!r} reads {was}, and this request is {now}.",
            "A position and windows would read records twice.",
            "Give one of them another pipeline_id and an output of its own.",
        )


def refuse_changes(
    want: Request, look: Look, log: PipelineLog, newest: Batch | None, committed: Batch | None, airflow: Airflow
) -> None:
    """In sequence, for a run that has no batch yet.

    :param committed: the newest committed batch.
    :raises ClusterChanged, CheckpointLost, CheckpointBehindGroup, GroupMoved: each ends with the line to copy.
    """
    refuse_other_cluster(look, newest)
    held, pipeline = look.group, log.pipeline_id
    refuse_lost_log(pipeline, want.group_id, held, newest, has_succeeded=has_succeeded(want, log, newest, airflow))
    if newest is None or want.group_id is None:
        return
    if later_marks(held, pipeline, committed):
        refuse_older_log(pipeline, want.group_id, held, committed, log.seen(newest))
    if committed is not None and foreign(held, pipeline):
        refuse_moved(pipeline, want.group_id, held, log.position_after(committed), log.seen(newest))


def has_succeeded(want: Request, log: PipelineLog, newest: Batch | None, airflow: Airflow) -> bool:
    """Whether the task has succeeded, and there is no batch, also not one that another run has planned meanwhile."""
    return newest is None and want.acknowledge is None and airflow.has_succeeded() and log.newest() is None


def refuse_other_cluster(look: Look, newest: Batch | None) -> None:
    """:raises ClusterChanged: another cluster answers than the one that the newest batch was planned on."""
    if newest is not None and newest.plan.cluster_id != look.description.cluster_id:
        raise other_cluster(newest.plan, look.description.cluster_id)


def acknowledge_by_conf(
    want: Request, me: RunKey, look: Look, log: PipelineLog, bound: int | None, newest: Batch | None
) -> bool:
    """Carry out ``{"kafka_offsets": {"acknowledge": "why"}}`` of the run's conf, once. ``True``: look again.

    A cleared run keeps its conf: an instruction that its batch has already carried out is ignored.
    """
    if want.acknowledge is None or newest is None:
        return False
    number = newest.number if want.window is None else log.batch_of_window(want.window)
    if number is None or (bound is not None and bound != number):
        return False
    batch = newest if number == newest.number else log.existing(number)
    who = Actor(person=f"{want.acknowledge} (conf of run {me})")
    if any(entry.by == who for entry in batch.entries) or (batch.is_closed and (bound or want.window)):
        return False
    acknowledge(look, log, batch, who)
    return True
