# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A window is the range between two cuts. Neighbours share a cut.

A cut is an offset for every partition at a moment, looked up once and kept. Adjacent windows merge into stretches, of
which both end cuts are known. A new cut is clamped between the nearest cuts before and after, so that cuts are in order
in every partition, in whatever order windows are planned. A partition that a cut lacks counts as 0 in it; so does one
of a topic that has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.body import Offset, Offsets, Stretch

MOST_STRETCHES = 500
Window = tuple[int, int]
"""``[start, end)`` in milliseconds, UTC."""


class Cut(NamedTuple):
    """The offsets at a moment, without those of topics that have ended."""

    time_ms: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Covered:
    """What a pipeline has taken so far, as the newest batch's first plan has it.

    :ivar stretches: in order.
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

    def nearest(self, window: Window) -> tuple[Cut | None, Cut | None]:
        """The last cut before a window that overlaps no stretch, and the first one behind it."""
        before = [Cut(s.end_ms, self._live(s.end_cut)) for s in self.stretches if s.end_ms <= window[0]]
        after = [Cut(s.start_ms, self._live(s.start_cut)) for s in self.stretches if s.start_ms >= window[1]]
        return before[-1] if before else None, after[0] if after else None

    def topics(self) -> dict[TopicPartition, Offset]:
        """An offset of each partition that a cut has, for the id of its topic."""
        cuts = (cut for s in self.stretches for cut in (s.start_cut, s.end_cut))
        return {tp: offset for cut in cuts for tp, offset in self._live(cut).items()}

    def _live(self, cut: Offsets) -> Offsets:
        return {tp: at for tp, at in cut.items() if at.topic_id not in self.ended} if self.ended else cut


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
