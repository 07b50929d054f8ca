# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""In sequence: what the next batch reads, and what an unfinished one reads when it is planned again (rules 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.state import Turn
from airflow_kafka_offsets.engine.ways import WayOn
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.plan.body import Decision, Offset, PlanBody, PlannedRange, Skips
from airflow_kafka_offsets.plan.cap import cap_ranges
from airflow_kafka_offsets.plan.ranges import ValidatedStart, end_offset, for_each, validate_start


class Draft(NamedTuple):
    """A plan's body.

    :ivar has_news: whether it reads or records anything.
    """

    body: PlanBody
    has_news: bool


def plan_sequence(turn: Turn) -> Draft:
    """The plan of the batch behind the newest committed one, by today's request: the next, or the unfinished one again.

    :raises DataLoss: unread records were deleted, and ``on_data_loss`` is ``fail``.
    """
    look, head = turn.look, turn.shard.head
    resumed = turn.decided.resumed(turn.log, *head)
    position = resumed.position
    asked = look.to_read(position)
    new = look.log_starts([tp for tp in asked if tp not in position])
    position |= new
    facts = look.facts(asked, position)
    starts = for_each(asked, lambda tp: validate_start(look.request, facts, tp, position[tp]))
    refuse_losses(look, starts, turn.way_on)
    ends = for_each(asked, lambda tp: end_offset(look.request, facts, tp, starts[tp].start))
    ranges = {
        tp: PlannedRange(starts[tp].start, ends[tp], facts.snapshots[tp].leader_epoch, facts.snapshots[tp].end_offset)
        for tp in asked
    }
    ranges = cap_ranges(ranges, look.request.max_records)
    skips = skips_in(turn.identity, ranges, position)
    decisions = (*resumed.decisions, *decisions_of(starts), *decisions_of_skips(skips))
    body = PlanBody(ranges, position, skips, decisions)
    return Draft(body, bool(body.offsets or decisions or new or (head.committed is None and position)))


def decisions_of(starts: Mapping[TopicPartition, ValidatedStart]) -> tuple[Decision, ...]:
    return tuple(decision for tp in sorted(starts) for decision in starts[tp].decisions)


def skips_in(
    identity: Identity, ranges: Mapping[TopicPartition, PlannedRange], position: Mapping[TopicPartition, Offset]
) -> Skips:
    """The parts of the identity's skips that lie inside the ranges, merged."""
    found: dict[TopicPartition, tuple[OffsetRange, ...]] = {}
    for tp in sorted({skip.partition for skip in identity.skips} & ranges.keys()):
        whole = OffsetRange(ranges[tp].start, max(ranges[tp].start, ranges[tp].end))
        left = whole.without(identity.skipped(tp, position[tp].topic_id))
        if inside := tuple(whole.without(left)):
            found[tp] = inside
    return found


def decisions_of_skips(skips: Skips) -> tuple[Decision, ...]:
    return tuple(
        Decision(tp, skip.start_offset, skip.end_offset, "skipped", "skip") for tp, of in skips.items() for skip in of
    )


def refuse_losses(look: Look, starts: Mapping[TopicPartition, ValidatedStart], way_on: WayOn | None = None) -> None:
    """
    :param way_on: ``None``: the pipeline has no identity yet, so that no act is possible.
    :raises DataLoss: records are gone, and ``on_data_loss`` is ``fail``; with the reset that moves just those.
    """
    fails = look.request.on_data_loss == "fail"
    lost = {tp: start for tp, start in sorted(starts.items()) if start.loss and (fails or start.is_refused)}
    if not lost:
        return
    remedy = (
        'Restore the records, or accept the loss: on_data_loss="advance" resumes at the first record that is left, '
        '"reset" resumes where otherwise= says.'
    )
    if way_on is not None:
        reset: dict[str, Any] = {"start": {str(tp): start.start for tp, start in lost.items()}}
        if any(d.kind == "again" for start in lost.values() for d in start.decisions):
            reset["allow_duplicates"] = True
        remedy += f" For these partitions alone, once, {way_on(reset=reset)}"
    raise DataLoss([str(start.loss) for start in lost.values()], remedy)
