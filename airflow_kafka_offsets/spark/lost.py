# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a person has to know where the output lacks rows of committed batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from airflow_kafka_offsets.spark.attempts import entries_of
from airflow_kafka_offsets.spark.errors import OutputLost, StoreUnavailable
from airflow_kafka_offsets.spark.objects import read_object
from airflow_kafka_offsets.spark.plan import Plan, read_plan
from airflow_kafka_offsets.spark.store import Store

Missing = Mapping[str, tuple[str, Plan | None]]
"""By key, which run committed the batch, and what that has read; ``None``: not known."""

STEP = 50
"""So many batches are looked for at a time, until one of them is there."""


def name_lost(error: OutputLost, lost: Missing, is_readable: Callable[[Plan], bool], plan: Plan) -> OutputLost:
    """The error with all batches that are missing, their runs, and whether Kafka has their records."""
    lost = lost or {str(plan.expects): ("not known", None)}
    listed = "; ".join(f"{key} (run {r}), whose records Kafka {_has(p, is_readable)}" for key, (r, p) in lost.items())
    act = plan.conf(acknowledge={"rows": [*lost]})
    remedy = f"Restore the table; or clear these runs, oldest first; or give up just these rows: {act}"
    return OutputLost(error.what, f"{error.cause}. Committed batches that are missing there: {listed}", remedy)


def _has(plan: Plan | None, is_readable: Callable[[Plan], bool]) -> str:
    return "may have" if plan is None else "has" if is_readable(plan) else "has no more"


def missing_batches(
    store: Store, pipeline: str, plan: Plan, output: str, present: Callable[[Sequence[str]], Collection[str]]
) -> Missing:
    """Keys of earlier batches that are committed with rows into this output, which lacks them, oldest first.

    The log is searched backwards, some batches at a time, until the output has one of them. What a person has given up
    is not missing.

    :param pipeline: its folder.
    :param present: which of these keys are there.
    :returns: what is read is known of the newest ``STEP`` batches.
    """
    missing: dict[str, tuple[str, Plan | None]] = {}
    given_up = read_object(store, f"{pipeline.partition('/')[0]}/pipeline/{plan.identity}.json")["rows"]
    for end in range(plan.number, 1, -STEP):
        step = dict(_committed(store, pipeline, range(max(1, end - STEP), end), output))
        there = present([*step])
        missing = {
            key: (run, read if end == plan.number else None)
            for key, (run, read) in step.items()
            if key not in there and key not in given_up
        } | missing
        if there:
            break
    return missing


def _committed(
    store: Store, pipeline: str, numbers: Iterable[int], output: str
) -> Iterator[tuple[str, tuple[str, Plan | None]]]:
    for number in numbers:
        earlier, entries = entries_of(store, pipeline, number)
        commits = [entry for entry in entries.values() if entry["entry"] == "commit"]
        if commits and commits[-1].get("rows", 1) and commits[-1]["output"] == output:
            newest = max(k for k, entry in entries.items() if entry["entry"] == "plan")
            yield entries[newest]["key"], (commits[-1]["by"]["run_id"], _plan(store, earlier, newest))


def _plan(store: Store, folder: str, entry: int) -> Plan | None:
    """``None``: its ranges are cleaned away."""
    try:
        return read_plan(store, folder, entry)
    except StoreUnavailable:
        return None


def first_offsets(plan: Plan) -> Plan:
    """The first offset of each range: if Kafka has these, it has all that follow."""
    return replace(plan, ranges=tuple(r._replace(end=r.start + 1) for r in plan.read_ranges), skips=())
