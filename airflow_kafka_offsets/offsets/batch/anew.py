"""A batch that is planned anew in place: the plan that takes the place of the one before.

What must stay true: it has at least as many splits as the plan before, and starts every split that may hold rows of an
earlier plan, so that they are overwritten and nobody has to look who had begun.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.model import OffsetRange
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.plan.splits import splits_to_start, splits_with_records
from airflow_kafka_offsets.offsets.request.policies import Skip


def planned_anew(before: OffsetPlan, fresh: OffsetPlan, reason: str) -> OffsetPlan:
    """The plan that takes the place of ``before``: the ranges of ``fresh``, under the key of the batch."""
    widened = replace(fresh, batch=before.batch, splits=max(before.splits, fresh.splits), reason=reason)
    left = set(splits_to_start(before)) - splits_with_records(widened)
    return replace(widened, overwrites=tuple(sorted(left)))


def emptied(before: OffsetPlan, fresh: OffsetPlan, reason: str) -> OffsetPlan:
    """The plan that takes the place of ``before`` and reads nothing.

    :param fresh: ``before``, signed by the run that empties the batch.
    """
    nothing = tuple(replace(p, range=OffsetRange(p.end_offset, p.end_offset)) for p in fresh.partitions)
    return planned_anew(before, replace(fresh, partitions=nothing), reason)


def skipped(before: OffsetPlan, by: OffsetPlan, skip: Skip) -> OffsetPlan:
    """The plan that takes the place of ``before``, without what a person gives up.

    :param by: ``before``, signed by that person's run.
    :raises InvalidRequest: ``past`` names what the batch does not read.
    """
    past = dict(skip.past)
    ranges = {p.topic_partition: p for p in before.to_read()}
    problems = [
        f"skip past {tp}:{offset}: the batch reads "
        + (f"[{ranges[tp].start_offset}, {ranges[tp].end_offset}) of it." if tp in ranges else "nothing of it.")
        for tp, offset in past.items()
        if tp not in ranges or not ranges[tp].start_offset <= offset < ranges[tp].end_offset
    ]
    if problems:
        raise InvalidRequest(tuple(problems))

    def without(p: PlannedPartition) -> PlannedPartition:
        if past and p.topic_partition not in past:
            return p
        start = past[p.topic_partition] + 1 if past else p.end_offset
        left_out = start - p.start_offset
        return replace(
            p,
            range=OffsetRange(start, p.end_offset),
            position=start,  # so that a batch that is planned anew after this does not bring it back
            skipped=p.skipped + left_out,
            start_reason=f"{p.start_reason}, then {left_out} skipped by order: {skip.reason}"
            if left_out
            else p.start_reason,
        )

    return planned_anew(before, replace(by, partitions=tuple(map(without, by.partitions))), skip.words)
