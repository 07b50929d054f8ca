# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What the page shows of a pipeline, as values: rows of ``engine/history.py``, what is unread, and words about them.

A row is what ``kafka-offsets show --output json`` prints. Absent is ``None``: not known, and never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from shlex import quote
from typing import Any, NamedTuple

from airflow_kafka_offsets.engine.history import (
    attempt_rows,
    batch_row,
    decision_row,
    entry_rows,
    identity_rows,
    range_rows,
    unfinished,
)
from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.unread import Unread
from airflow_kafka_offsets.plan.body import PlanBody, Stretch
from airflow_kafka_offsets.store.protocol import together
from airflow_kafka_offsets.times import iso, parse_timestamp_ms

PAGE = 48  # batches
PARTITIONS = 100
_MOST_TODOS = 5
Row = Mapping[str, Any]
StateOfRun = Callable[[RunKey], str | None]
_ACTIVE = ("running", "queued")
_UNFINISHED = {
    "planned": "planned, and Spark has not begun",
    "begun": "being written by Spark",
    "reported": "written, and not committed yet",
    "being rewritten": "being written again",
}


class FailedRun(NamedTuple):
    """A run whose resolve task has failed.

    :ivar interval: its data interval in milliseconds; ``None``: it has none.
    """

    run_id: str
    interval: tuple[int, int] | None


def page_row(batch: Batch) -> dict[str, Any]:
    """The row of a batch, with the run that owns it."""
    return {**batch_row(batch), "run": batch.plan.by}


def batches_before(log: PipelineLog, newest: int, page: int) -> list[dict[str, Any]]:
    """The headers of one page of batches, the newest first. The newest batch is looked at again with them."""
    first = newest - (page - 1) * PAGE
    return list(log.read_each(range(first, max(0, first - PAGE), -1), page_row))


def unfinished_rows(log: PipelineLog, newest: Batch) -> list[dict[str, Any]]:
    """The batches of the whole log that are not committed, the oldest first."""
    return list(map(page_row, unfinished(log, newest)))


def decided_rows(log: PipelineLog) -> list[dict[str, Any]]:
    """What people have decided about the pipeline, the newest first. The act is shown as it was written."""
    told = ("pipeline", "after", "reason")
    return [
        {**row, "act": {name: said for name, said in (row["act"] or {}).items() if name not in told}}
        for row in reversed(identity_rows(log))
    ]


def stretches_of(log: PipelineLog, newest: Batch) -> Sequence[Stretch]:
    """By window: what was planned so far, adjacent windows merged."""
    return () if newest.first_plan.window is None or newest.is_cleaned else log.first_body(newest).covered


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sentence(
    row: Row, unfinished: int, unread: Unread | None, now_ms: int, state_of: StateOfRun
) -> list[tuple[str, str]]:
    """State, unread, since when: each phrase with its tone, ``good``, ``bad``, ``open`` or empty.

    :param row: of the newest batch.
    :param unfinished: how many batches are not committed.
    :param unread: ``None`` by window, where no position can be behind.
    """
    said = [*_state(row, now_ms, state_of)]
    if unfinished > (row["state"] != "committed"):
        said.append((f"Not committed: {counted(unfinished, 'batch')}.", "bad"))
    if unread is not None and unread.records is None:
        said.append((f"The number of unread records is not known: {unread.why}", ""))
    elif unread is not None and unread.records:
        oldest = "" if unread.oldest_ms is None else f", the oldest since {clock(iso(unread.oldest_ms))}"
        said.append((f"{counted(unread.records, 'record')} unread{oldest}.", ""))
    elif unread is not None:
        said.append(("No record is unread.", ""))
    if unread is not None and unread.in_transaction:
        said.append((f"{counted(unread.in_transaction, 'record')} behind an open transaction.", "open"))
    given_up = row["given_up"].get("lost", 0) + row["given_up"].get("skipped", 0)
    wrong = {"bad": row["bad"] or 0, "lost or skipped": given_up}
    words = [f"{counted(count, 'record')} {what}" for what, count in wrong.items() if count]
    return [*said, (f"In batch {row['batch']}: {', '.join(words)}.", "bad")] if words else said


def _state(row: Row, now_ms: int, state_of: StateOfRun) -> list[tuple[str, str]]:
    if row["state"] == "committed":
        about = f"Batch {row['batch']} was committed {ago(row['at'], now_ms)} ago."
        return [("The newest batch is committed.", "good"), (about, "")]
    about = f"Batch {row['batch']} is {_UNFINISHED[row['state']]}"
    if is_active(row, state_of):
        return [(f"{about}, since {clock(row['at'])}.", "open")]
    return [(f"{about}.", "bad"), (f"No run has worked on it since {clock(row['at'])}.", "")]


def is_active(row: Row, state_of: StateOfRun) -> bool:
    """Whether the run that owns the batch is running."""
    return state_of(row["run"]) in _ACTIVE


def todos(
    log: PipelineLog,
    kafka_config_id: str,
    rows: Sequence[Row],
    unread: Unread | None,
    failed: FailedRun | None,
    state_of: StateOfRun,
) -> list[tuple[str, str]]:
    """What needs a person, and the command to copy: it writes nothing, and prints why a run is refused.

    :param rows: of batches that are not committed, or are being rewritten; of many, the first few have a command.
    :param failed: the newest run, if its resolve task has failed.
    """

    def command(bounds: Sequence[str] | None) -> str:
        window = "" if bounds is None else " --start timestamp:{} --end timestamp:{}".format(*bounds)
        where = f"--kafka-config-id {quote(kafka_config_id)} --checkpoint-location {quote(log.store.uri)}"
        return f"kafka-offsets plan {quote(log.pipeline_id)}{window} {where}"

    notes = {} if unread is None else unread.notes
    found = [
        *((_left(row), command(row["window"])) for row in rows if not is_active(row, state_of)),
        *((f"{counted(n, 'partition')}: {note}.", command(None)) for note, n in notes.items()),
    ]  # fmt: skip
    if failed is not None and not found:
        window = None if failed.interval is None or unread is not None else [*map(iso, failed.interval)]
        found = [
            (f"Run {failed.run_id} has failed before it had a batch: its resolve task's log says why.", command(window))
        ]
    return found[:_MOST_TODOS]


def _left(row: Row) -> str:
    return f"Batch {row['batch']} was left by run {row['owner']}: its task's log says why."


def figures(row: Row, unread: Unread | None, now_ms: int) -> list[tuple[str, str, str]]:
    """Name, value and words of each tile. What is not known has no tile."""
    oldest_ms = None if unread is None else unread.oldest_ms
    values = {
        "unread": (None if unread is None else unread.records, "records unread"),
        "in_transaction": ((unread.in_transaction or None) if unread else None, "records behind an open transaction"),
        "oldest": (None if oldest_ms is None else ago(iso(oldest_ms), now_ms), "age of the oldest unread record"),
        "offsets": (row["offsets"], f"offsets planned in batch {row['batch']}"),
        "rows": (row["rows"], f"rows in batch {row['batch']}"),
        "bad": (row["bad"], "bad records in it"),
        "filtered": (row["filtered"], "records filtered"),
        "lost": (row["given_up"].get("lost", 0), "records lost"),
        "skipped": (row["given_up"].get("skipped", 0), "records skipped"),
    }
    return [(name, number(value), words) for name, (value, words) in values.items() if value is not None]


def number(value: Any) -> str:
    """``12,000``; a dash where it is not known."""
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def clock(at: str) -> str:
    """``2026-11-20 10:00:07`` of an ISO time, in UTC."""
    return at.partition(".")[0].rstrip("Z").replace("T", " ")


def ago(at: str, now_ms: int) -> str:
    """``3 min``: the time since, in its largest unit."""
    seconds = max(0, now_ms - parse_timestamp_ms(at)) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{timedelta(seconds=seconds).seconds} s"


# ── one batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def batch_view(log: PipelineLog, batch: Batch, page: int, order: str) -> dict[str, Any]:
    """One batch with its entries, attempts, decisions and this page of its partitions.

    :param order: of the partitions: ``offsets``, the largest first, or by name.
    """
    reports = [partial(log.report, batch, attempt) for attempt in batch.attempts[-1:] if attempt.is_reported]
    body, *_ = together(log.store, PlanBody if batch.is_cleaned else partial(log.body, batch), *reports)
    rows = range_rows(log, batch, body)
    if order == "offsets":
        rows.sort(key=lambda row: -row["offsets"])
    return {
        "row": page_row(batch),
        "asked": batch.plan.asked,
        "entries": entry_rows(batch),
        "attempts": attempt_rows(batch),
        "decisions": [decision_row(decision) for decision in body.decisions[:PARTITIONS]],
        "partitions": rows[(page - 1) * PARTITIONS : page * PARTITIONS],
        "all_partitions": len(rows),
    }
