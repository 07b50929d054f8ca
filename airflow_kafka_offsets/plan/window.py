"""A window is the range between two cuts. Neighbours share a cut.

A cut is an offset for every partition at a moment, looked up once and kept. Adjacent windows merge into stretches, of
which both end cuts are known. A new cut is clamped between the nearest cuts before and after, so that cuts are in order
in every partition, in whatever order windows are planned. A partition that a cut lacks counts as 0 in it; so does one
of a topic that has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.body import Offset, Offsets, Stretch

MOST_STRETCHES = 500
Window = tuple[int, int]
"""``[start, end)`` in milliseconds, UTC."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What a pipeline has taken so far, as the newest batch's first plan has it.

    :ivar ended: ids of topics whose offsets count as none.
    """

    stretches: Sequence[Stretch]
    ended: Collection[str] = ()

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
        return next((self._live(s.end_cut) for s in self.stretches if s.end_ms == time_ms), None)

    def cut_starting_at(self, time_ms: int) -> Offsets | None:
        return next((self._live(s.start_cut) for s in self.stretches if s.start_ms == time_ms), None)

    def before(self, time_ms: int, tp: TopicPartition) -> int:
        """The offset of the nearest cut at or before a time; 0 where there is none."""
        return max(((t, self._offset(cut, tp)) for t, cut in self._cuts() if t <= time_ms), default=(0, 0))[1]

    def clamp(self, time_ms: int, tp: TopicPartition, offset: int) -> int:
        """An offset for a time, between the nearest cuts before and after."""
        after = min(((t, self._offset(cut, tp)) for t, cut in self._cuts() if t >= time_ms), default=None)
        offset = max(offset, self.before(time_ms, tp))
        return offset if after is None else min(offset, after[1])

    def topics(self) -> dict[TopicPartition, Offset]:
        """An offset of each partition that a cut has, for the id of its topic."""
        return {tp: offset for _, cut in self._cuts() for tp, offset in self._live(cut).items()}

    def _live(self, cut: Offsets) -> Offsets:
        return {tp: at for tp, at in cut.items() if at.topic_id not in self.ended} if self.ended else cut

    def _offset(self, cut: Offsets, tp: TopicPartition) -> int:
        found = cut.get(tp)
        return 0 if found is None or found.topic_id in self.ended else found.offset

    def _cuts(self) -> Iterator[tuple[int, Offsets]]:
        for s in self.stretches:
            yield s.start_ms, s.start_cut
            yield s.end_ms, s.end_cut


def with_window(
    stretches: Iterable[Stretch], window: Window, start_cut: Offsets, end_cut: Offsets
) -> tuple[Stretch, ...]:
    """The stretches with one window more, adjacent ones merged."""
    start_ms, end_ms = window
    others = []
    for s in stretches:
        if s.end_ms == start_ms:
            start_ms, start_cut = s.start_ms, s.start_cut
        elif s.start_ms == end_ms:
            end_ms, end_cut = s.end_ms, s.end_cut
        else:
            others.append(s)
    return tuple(sorted([*others, Stretch(start_ms, end_ms, start_cut, end_cut)], key=lambda s: s.start_ms))
