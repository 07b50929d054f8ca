# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Removes what no later step reads: ranges, attempts and reports of old batches that are in the output.

Headers, ``pipeline/``, ``windows/`` and ``runs/`` stay, because their creation decided something. So do the last two
commits, everything after them, and every batch that is unfinished, being rewritten, or not verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import verify


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was removed, or would be.

    :ivar batches: their numbers, the oldest first.
    """

    batches: tuple[int, ...]
    objects: int


class _Done(NamedTuple):
    """
    :ivar objects: how many were removed.
    :ivar state: ``young``: committed too lately; ``left``: unfinished, being rewritten, or not verified.
    """

    number: int
    objects: int
    state: Literal["young", "left", "clean"]


def clean(log: PipelineLog, before_ms: int, *, execute: bool) -> Cleaned:
    """Clean the batches whose last commit is older than ``before_ms``. Those that were cleaned before are not read.

    :param execute: ``False``: nothing is removed.
    """
    newest = log.newest()
    kept = 0
    number = newest.number if newest else 0
    while number and kept < 2:  # the last two commits and what follows them
        kept += log.existing(number).is_committed
        number -= 1

    def clean_batch(batch: Batch) -> _Done:
        if batch.is_closed and batch.commits[-1].at_ms >= before_ms:
            return _Done(batch.number, 0, "young")
        if not batch.is_closed or not (batch.is_cleaned or _is_verified(log, batch)):
            return _Done(batch.number, 0, "left")
        names = _names(log, batch)
        if names and execute and not _remove(log, batch, names):
            return _Done(batch.number, 0, "left")
        return _Done(batch.number, len(names), "clean")

    up_to, left = log.cleaned()
    done = list(log.read_each([*left, *range(up_to + 1, number + 1)], clean_batch))
    young = (one.number for one in done if one.state == "young" and one.number > up_to)
    end = min(young, default=number + 1)
    if execute and end > up_to + 1:
        log.note_cleaned(end - 1, [one.number for one in done if one.state != "clean" and one.number < end])
    cleaned = [one for one in done if one.objects]
    return Cleaned(tuple(one.number for one in cleaned), sum(one.objects for one in cleaned))


def _is_verified(log: PipelineLog, batch: Batch) -> bool:
    return not batch.plan.require_report or verify(batch, log.body(batch), log.report).is_verified


def _names(log: PipelineLog, batch: Batch) -> list[str]:
    """All but the headers. The body of the plan comes first: without it the batch counts as cleaned."""
    folder = log.folder(batch.number)
    names = [name for name in log.store.list(folder) if "-" in name]
    return [f"{folder}/{name}" for name in sorted(names, key=lambda name: name != batch.plan.ranges.name)]


def _remove(log: PipelineLog, batch: Batch, names: list[str]) -> bool:
    """``False``: a run began to rewrite the batch, so its ranges are restored."""
    store, first = log.store, names[0]
    data = store.get(first)
    store.delete(first)
    again = log.batch(batch.number)
    if again is not None and data is not None and len(again.entries) > len(batch.entries):
        store.create(first, data)
        return False
    for name in names[1:]:
        store.delete(name)
    return True
