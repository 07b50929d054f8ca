"""A window is the range between two cuts. Neighbours share a cut.

A cut is an offset for every partition at a moment, looked up once and kept. Adjacent windows merge into stretches, of
which both end cuts are known. A new cut is clamped between the nearest cuts before and after, so that cuts are in order
in every partition, in whatever order windows are planned. A partition that a cut lacks counts as 0 in it; so does one
whose topic was re-created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.body import Decision, Offset, Offsets, Stretch

MOST_STRETCHES, MOST_OFFSETS = 500, 2_000_000
Window = tuple[int, int]
"""``[start, end)`` in milliseconds, UTC."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What a pipeline has taken so far, as the newest batch's plan has it.

    :ivar topic_ids: as they are now.
    """

    stretches: Sequence[Stretch]
    topic_ids: Mapping[str, str | None]

    def overlapping(self, window: Window) -> list[Stretch]:
        return [s for s in self.stretches if s.start_ms < window[1] and window[0] < s.end_ms]

    def free(self, window: Window) -> list[Window]:
        """The parts of a window that are in no stretch."""
        parts, at = [], window[0]
        for stretch in self.overlapping(window):
            if at < stretch.start_ms:
                parts.append((at, stretch.start_ms))
            at = stretch.end_ms
        return [*parts, (at, window[1])] if at < window[1] else parts

    def cut_ending_at(self, time_ms: int) -> Offsets | None:
        return next((s.end_cut for s in self.stretches if s.end_ms == time_ms), None)

    def cut_starting_at(self, time_ms: int) -> Offsets | None:
        return next((s.start_cut for s in self.stretches if s.start_ms == time_ms), None)

    def partitions(self) -> set[TopicPartition]:
        return {tp for s in self.stretches for tp in (*s.start_cut, *s.end_cut)}

    def before(self, time_ms: int, tp: TopicPartition) -> int:
        """The offset of the nearest cut at or before a time; 0 where there is none."""
        times = [(t, self.offset_in(cut, tp)) for t, cut in self._cuts() if t <= time_ms]
        return max(times, default=(0, 0))[1]

    def before_in(self, time_ms: int, tp: TopicPartition, topic_id: str | None) -> int:
        """The highest offset of the cuts up to a time in a topic that was re-created since; 0 where there is none."""
        cuts = (cut[tp] for t, cut in self._cuts() if t <= time_ms and tp in cut)
        return max((offset.offset for offset in cuts if offset.topic_id == topic_id), default=0)

    def clamp(self, time_ms: int, tp: TopicPartition, offset: int) -> int:
        """An offset for a time, between the nearest cuts before and after."""
        after = min(((t, self.offset_in(cut, tp)) for t, cut in self._cuts() if t >= time_ms), default=None)
        offset = max(offset, self.before(time_ms, tp))
        return offset if after is None else min(offset, after[1])

    def offset_in(self, cut: Offsets, tp: TopicPartition) -> int:
        found = cut.get(tp)
        return 0 if found is None or is_other_topic(found, tp, self.topic_ids) else found.offset

    def _cuts(self) -> Iterator[tuple[int, Offsets]]:
        for s in self.stretches:
            yield s.start_ms, s.start_cut
            yield s.end_ms, s.end_cut


def is_other_topic(offset: Offset, tp: TopicPartition, topic_ids: Mapping[str, str | None]) -> bool:
    """Whether an offset is of a topic that was deleted and created again."""
    now = topic_ids.get(tp.topic)
    return offset.topic_id is not None and now is not None and offset.topic_id != now


def with_window(
    stretches: Iterable[Stretch], window: Window, start_cut: Offsets, end_cut: Offsets
) -> tuple[tuple[Stretch, ...], tuple[Decision, ...]]:
    """The stretches with one window more, adjacent ones merged, and what no later window can have any more.

    Of more than ``MOST_STRETCHES`` (or ``MOST_OFFSETS``) the oldest are merged: the gap between them cannot be planned.
    """
    start_ms, end_ms = window
    others = []
    for s in stretches:
        if s.end_ms == start_ms:
            start_ms, start_cut = s.start_ms, s.start_cut
        elif s.start_ms == end_ms:
            end_ms, end_cut = s.end_ms, s.end_cut
        else:
            others.append(s)
    merged = sorted([*others, Stretch(start_ms, end_ms, start_cut, end_cut)])
    gaps: list[Decision] = []
    while len(merged) > 1 and (
        len(merged) > MOST_STRETCHES or sum(len(s.start_cut) + len(s.end_cut) for s in merged) > MOST_OFFSETS
    ):
        first, second, *rest = merged
        for tp, at in sorted(second.start_cut.items()):
            before = first.end_cut.get(tp)
            low = before.offset if before is not None and before.topic_id == at.topic_id else 0
            if at.offset > low:
                gaps.append(Decision(tp, low, at.offset, "skipped", "the oldest windows were merged", keep=True))
        merged = [Stretch(first.start_ms, second.end_ms, first.start_cut, second.end_cut), *rest]
    return tuple(merged), tuple(gaps)
