"""How a pipeline stands, in a sentence and six figures: the page, ``kafka-offsets show`` and ``lag`` say the same.

What must stay true: what is not known is said to be unknown, and is never 0. Counts are offsets, an upper bound of
records.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.log.batch_lines import BatchLine
from airflow_kafka_offsets.log.entries import Summary, Totals
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin
from airflow_kafka_offsets.request.times import short_time

Tone = Literal["plain", "good", "open", "bad"]
"""How a state or a phrase is coloured: nothing special, all is well, under way, look at it."""
UNKNOWN = "unknown"
_SOON_MS = 60_000  # a scheduler makes a run some seconds after its time


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of the sentence; the pieces stand one after the other, with a space between."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the six figures.

    :ivar name: ``unread``, ``oldest``, ``retention``, ``next_run``, ``lost`` or ``set_aside``: the same on each page.
    :ivar value: what is shown large: ``2,040``, ``3 min``; ``unknown``, ``never`` and ``none`` are possible.
    :ivar words: what stands below it: ``records not read yet``.
    :ivar number: the count, or the milliseconds, of a run that is overdue below 0; ``None``: unknown, or there is none.
    """

    name: str
    value: str
    words: str
    number: int | None
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class NextRun:
    """When the DAG runs next.

    :ivar at_ms: ``None``: it has no next run by a clock.
    :ivar words: the schedule, or why there is no next run: ``@hourly``, ``the DAG is paused``.
    """

    at_ms: int | None
    words: str


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What is known of a pipeline now.

    :ivar newest: the newest batch, or of a pipeline that has windows alone, its newest window; ``None``: there is none.
    :ivar totals: of all batches, or of the windows that were looked at; ``None``: not known.
    :ivar lag: of all partitions together, as far as it is known; ``None`` where Kafka was not asked.
    :ivar keeps_all: whether retention deletes none of what is unread.
    :ivar next_run: ``None`` where Airflow was not asked.
    """

    newest: BatchLine | None
    now_ms: int
    totals: Totals | None = None
    lag: LagAndMargin | None = None
    keeps_all: bool = False
    next_run: NextRun | None = None

    @property
    def counted_in(self) -> str:
        """What the totals are of: ``212 batches``."""
        totals = self.totals or Totals()
        if self.newest is not None and self.newest.summary.number is None:
            return f"the last {counted(totals.batches, 'window')}"
        return counted_batches(totals)

    @property
    def unread(self) -> int | None:
        return self.lag.lag if self.lag else None

    @property
    def until_next_ms(self) -> int | None:
        """Less than 0: it should have begun by now."""
        at_ms = self.next_run.at_ms if self.next_run else None
        return None if at_ms is None else at_ms - self.now_ms

    @property
    def overdue_since(self) -> str | None:
        """When the next run should have begun, where a scheduler that is well would have made it by now."""
        at_ms, until_ms = self.next_run.at_ms if self.next_run else None, self.until_next_ms
        return None if at_ms is None or until_ms is None or until_ms > -_SOON_MS else clock(at_ms, self.now_ms)


def counted_batches(totals: Totals) -> str:
    return f"{totals.batches:,} batch{'es' * (totals.batches != 1)}"


def clock(at_ms: int, now_ms: int, *, seconds: bool = True) -> str:
    """``14:00:03`` of today, ``22 Nov 14:00`` of another day, and with the year of another year; UTC."""
    at, now = (datetime.fromtimestamp(ms // 1000, UTC) for ms in (at_ms, now_ms))
    if at.date() == now.date():
        return f"{at:%H:%M:%S}" if seconds else f"{at:%H:%M}"
    return f"{at.day} {at:%b %H:%M}" if at.year == now.year else f"{at.day} {at:%b %Y %H:%M}"


# ── the sentence ──────────────────────────────────────────────────────────────────────────────────────────────────────


def sentence(status: PipelineStatus) -> tuple[Phrase, ...]:
    """How it stands, in phrases."""
    newest = status.newest
    if newest is None:
        return (Phrase("The pipeline has no batch yet."),)
    parts = [_of_newest(newest, status.now_ms), *_since(newest, status), *left_out(status.totals)]
    margin_ms, until_ms = status.lag.margin_ms if status.lag else None, status.until_next_ms
    if status.unread and margin_ms is not None and until_ms is not None and margin_ms < until_ms:
        parts.append(Phrase("Retention may take unread records before the next run.", "bad"))
    if status.overdue_since:
        parts.append(Phrase(f"The next run is overdue since {status.overdue_since}.", "bad"))
    return tuple(parts)


def _of_newest(newest: BatchLine, now_ms: int) -> Phrase:
    if newest.committed is None:
        by, at_ms = newest.held
        return Phrase(f"{newest.title} is not committed: it is with {by} since {clock(at_ms, now_ms)}.", "open")
    every = "Every batch" if newest.summary.number else "The newest window"
    if newest.is_being_done_again:
        return Phrase(f"{every} is committed. {newest.title} is being done again.", "open")
    return Phrase(f"{every} is committed.", "good")


def _since(newest: BatchLine, status: PipelineStatus) -> list[Phrase]:
    """Up to where it has read, and what has come since. A window moves no position."""
    if newest.summary.number is None:
        return []
    parts, unread = [], status.unread
    if newest.committed is not None:
        parts.append(
            Phrase(f"{newest.title} {_did(newest.summary)} {clock(newest.summary.planned_ms, status.now_ms)}.")
        )
    if unread is None:
        parts.append(Phrase("How many records have come since is not known."))
    elif not unread:
        parts.append(Phrase("No record has come since then."))
    else:
        behind_ms = status.lag.behind_ms if status.lag else None
        is_new = newest.committed is not None and not newest.summary.left
        come, left = counted(unread, "record", "has"), counted(unread, "record", "is")
        what = f"Since then {come} come" if is_new else f"{left} not read yet"
        parts.append(
            Phrase(f"{what}, the oldest {short_time(behind_ms)} ago." if behind_ms is not None else f"{what}.")
        )
    return parts


def _did(summary: Summary) -> str:
    """What a batch did, at the time of its plan: it has read up to that time only if it left nothing."""
    if summary.reason and not summary.records:
        return "set the position at"
    return "read up to" if summary.left == 0 else "was planned at"


def left_out(totals: Totals | None) -> list[Phrase]:
    """What no batch reads, and what is in no good row."""
    if totals is None:
        return [Phrase("How many records are lost or skipped is not known.")]
    left, aside = totals.lost + totals.skipped, totals.set_aside
    parts = [Phrase("Nothing is lost or skipped.")]
    if left:
        last = f", last in batch {totals.last_left}" * (totals.last_left is not None)
        parts = [Phrase(f"{counted(left, 'record', 'is')} lost or skipped{last}.", "bad")]
    if aside:
        parts.append(Phrase(f"{counted(aside, 'record', 'is')} set aside.", "bad"))
    return parts


# ── the figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def figures(status: PipelineStatus) -> tuple[Figure, ...]:
    """The six, always in this order."""
    totals, lag = status.totals or Totals(), status.lag or LagAndMargin()
    left = totals.lost + totals.skipped
    aside = f", in batch {totals.last_set_aside}" if totals.last_set_aside is not None else ""
    counts = status.totals is not None
    return (
        Figure("unread", UNKNOWN if lag.lag is None else f"{lag.lag:,}", "records not read yet", lag.lag),
        _age(lag),
        _margin(lag, status.keeps_all, status.until_next_ms),
        _next(status),
        Figure(
            "lost",
            f"{left:,}" if counts else UNKNOWN,
            f"lost or skipped, in {status.counted_in}",
            left if counts else None,
            "bad" if left else "plain",
        ),
        Figure(
            "set_aside",
            f"{totals.set_aside:,}" if counts else UNKNOWN,
            f"set aside{aside}",
            totals.set_aside if counts else None,
            "bad" if totals.set_aside else "plain",
        ),
    )


def _age(lag: LagAndMargin) -> Figure:
    value = "none" if lag.lag == 0 else UNKNOWN if lag.behind_ms is None else short_time(lag.behind_ms)
    return Figure("oldest", value, "age of the oldest of them", None if lag.lag == 0 else lag.behind_ms)


def _margin(lag: LagAndMargin, keeps_all: bool, until_next_ms: int | None) -> Figure:
    words = "until retention reaches them, at the earliest"
    if lag.lag == 0:
        return Figure("retention", "none", "nothing is left for retention to take", None)
    if keeps_all:
        return Figure("retention", "never", "these topics keep all records", None)
    if lag.margin_ms is None:
        return Figure("retention", UNKNOWN, words, None)
    near = until_next_ms is not None and lag.margin_ms < until_next_ms
    return Figure("retention", short_time(lag.margin_ms), words, lag.margin_ms, "bad" if near else "plain")


def _next(status: PipelineStatus) -> Figure:
    until_ms, run = status.until_next_ms, status.next_run
    if run is None:
        return Figure("next_run", UNKNOWN, "to the next run", None)
    if until_ms is None or run.at_ms is None:
        return Figure("next_run", "none", f"no next run by a clock ({run.words})", None)
    if status.overdue_since:
        words = f"the next run, since {status.overdue_since} ({run.words})"
        return Figure("next_run", "overdue", words, until_ms, "bad")
    return Figure(
        "next_run",
        short_time(max(0, until_ms)),
        f"to the next run ({clock(run.at_ms, status.now_ms)}, {run.words})",
        until_ms,
    )
