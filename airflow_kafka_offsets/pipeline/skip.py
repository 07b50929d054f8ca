"""A person leaves out an unfinished batch, or a window: the plan that takes its place, made at a terminal.

No run holds the batch then. The next run does the new plan, and so overwrites what was half written.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_kafka_offsets.errors import BatchClosed, NoPosition
from airflow_kafka_offsets.offsets.batch.anew import skipped
from airflow_kafka_offsets.offsets.batch.log import Planned
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.request.policies import Skip
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog, StoredBatch


def skip_batch(pipeline: PipelineLog, skip: Skip, *, now_ms: int, dry_run: bool) -> tuple[OffsetPlan, OffsetPlan]:
    """Before and after: the unfinished batch's plan, and the one that leaves out what ``skip`` says.

    :raises BatchClosed: ``skip`` names another batch than the unfinished one.
    :raises NoPosition: the pipeline has no batch.
    """
    while True:
        newest = pipeline.newest()
        if newest is None:
            raise NoPosition(
                [f"Pipeline {pipeline.pipeline_id!r} has no batch"], "Correct the name, or the work store."
            )
        name = newest.log.plan.batch
        if newest.log.committed:
            raise BatchClosed("skip", skip.batch, f"the newest batch, {name.key if name else '?'}, is committed")
        if name is None or skip.batch != name.key:
            raise BatchClosed("skip", skip.batch, f"the unfinished batch is {name.key if name else '?'}")
        found = _replace(newest, skip, now_ms, dry_run)
        if found is not None:
            return found


def skip_window(pipeline: PipelineLog, skip: Skip, *, now_ms: int, dry_run: bool) -> tuple[OffsetPlan, OffsetPlan]:
    """The same for a window, committed or not; ``skip.batch`` is its name (``<from>--<to>``) or its key.

    :raises NoPosition: there is no such window.
    """
    while True:
        # Looked for among the names that there are: a name such as ../batches/… leads out of the windows' folder.
        named = pipeline.window(skip.batch) if skip.batch in pipeline.windows() else None
        window = named or _by_key(pipeline, skip.batch)
        if window is None:
            raise NoPosition(
                [f"Pipeline {pipeline.pipeline_id!r} has no window {skip.batch}"],
                "kafka-offsets show --windows lists those that it has.",
            )
        found = _replace(window, skip, now_ms, dry_run)
        if found is not None:
            return found


def _by_key(pipeline: PipelineLog, key: str) -> StoredBatch | None:
    found = (pipeline.window(name) for name in pipeline.windows())
    return next((w for w in found if w is not None and w.log.plan.batch and w.log.plan.batch.key == key), None)


def _replace(batch: StoredBatch, skip: Skip, now_ms: int, dry_run: bool) -> tuple[OffsetPlan, OffsetPlan] | None:
    before = batch.log.plan
    by_hand = replace(before, run=None, resolved_at_ms=now_ms)  # the Airflow that the batch is of stays named
    after = skipped(before, by_hand, skip)
    if dry_run or batch.append(Planned(after, batch.log.planned.position)) is not None:
        return before, after
    return None
