"""What the page of a pipeline shows, as values: a template or JSON is made of them, and nothing has to be worked out.

Counts are offsets, an upper bound of records. Absent is ``None``: it is not known, and never 0. Texts are data: a
topic may be called ``<script>``, and escaping is the template's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from airflow_kafka_offsets.batch.pipeline_status import Figure, Phrase, Tone
from airflow_kafka_offsets.kafka_values import RunKey

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class RunLink:
    """A run in words (``scheduled 14:00``), and where to find it in Airflow; a person has no run."""

    words: str
    run: RunKey | None


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One batch, or one window.

    :ivar name: how it is named in ``partitions_view`` and in addresses: its number, or the window's name.
    :ivar title: ``212``, or a window's bounds.
    :ivar state: one of ``BatchState``.
    :ivar lost: lost and skipped.
    :ivar left: what was there at or after its end when it was planned; ``None``: not known.
    :ivar splits: ``2 of 2 whole``.
    :ivar took_ms: from its first plan to its commit; ``None`` until it is committed.
    :ivar why: why it is as it is, in words.
    """

    name: str
    key: str
    title: str
    state: str
    tone: Tone
    planned_ms: int | None
    runs: tuple[RunLink, ...]
    records: int | None
    set_aside: int | None
    lost: int | None
    left: int | None
    splits: str
    took_ms: int | None
    took: str
    why: str


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Some of the rows.

    :ivar number: of the page, from 1; :ivar pages: how many there are.
    :ivar matching: how many rows the filter leaves; :ivar total: how many there are without it.
    :ivar looked: how many batches were looked at for a state; ``None``: no state was asked for.
    :ivar further: the name of the batch from which on the rest is looked for; ``None``: there is no rest.
    """

    rows: tuple[Row, ...]
    number: int
    pages: int
    matching: int
    total: int
    looked: int | None = None
    further: str | None = None

    @classmethod
    def of(cls, matching: Sequence[Row], number: int, size: int, total: int) -> Page[Row]:
        """The page ``number`` of the rows that match, or the nearest one that there is."""
        pages = max(1, -(-len(matching) // size))
        number = min(max(1, number), pages)
        return cls(tuple(matching[(number - 1) * size : number * size]), number, pages, len(matching), total)


@dataclass(frozen=True, slots=True)
class PipelineView:
    """The page of a pipeline, without the partitions of a batch.

    :ivar about: what stands beside the title, label and text: group, log, output.
    :ivar chart: the newest batches that are committed, the oldest first.
    :ivar newest: name of the batch whose partitions are shown first; ``None``: there is none.
    :ivar has_windows: whether the calendar has something to show.
    :ivar is_waiting: whether Kafka is being asked: the figures are there when the page is loaded again, in a moment.
    :ivar not_asked: what could not be asked, and why: a sentence each. Empty where all is known.
    :ivar command: the command line that shows the same.
    :ivar can: which of the actions make sense now: ``reset``, ``skip``, ``redo``, ``take over``.
    """

    pipeline_id: str
    dag_id: str
    task_id: str
    about: tuple[tuple[str, str], ...]
    sentence: tuple[Phrase, ...]
    figures: tuple[Figure, ...]
    chart: tuple[BatchRow, ...]
    batches: Page[BatchRow]
    newest: str | None
    has_windows: bool
    looked_at_ms: int
    is_waiting: bool
    not_asked: tuple[str, ...]
    command: str
    can: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """Where things lie between log start (0) and end (1) of a partition's log.

    :ivar start, end: the batch's range; :ivar position: the pipeline's.
    """

    start: float
    end: float
    position: float


@dataclass(frozen=True, slots=True)
class PartitionsView:
    """The partitions of one batch.

    :ivar partitions: each as ``kafka-offsets show`` has it; ``log_start`` and ``log_end`` as they are now, ``position``
        of the pipeline, ``left`` from there to the end, and its ``bar``. ``None`` where Kafka has not told it.
    :ivar splits: each split in a line: ``split 1: attempt 2, read back``, or what is wrong.
    :ivar history: the batch's log in words, an entry a line.
    """

    name: str
    key: str
    title: str
    state: str
    partitions: Page[Mapping[str, object]]
    splits: tuple[str, ...]
    history: tuple[str, ...]
    looked_at_ms: int
    not_asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowCell:
    """One window of the calendar, or a gap between two.

    :ivar state: ``done``, ``late`` (done, and its plan lacks records that came later), ``not committed``, ``missing``
        (between two windows of one length, and nobody has planned it), ``overlapping``, ``given way``.
    :ivar row: the window as a batch; ``None`` where it is missing.
    """

    start_ms: int
    end_ms: int
    state: str
    tone: Tone
    row: BatchRow | None
    why: str


@dataclass(frozen=True, slots=True)
class WindowsView:
    """The calendar of one month.

    :ivar month: ``2026-11``; :ivar months: those that have windows, ascending.
    :ivar others: windows by offsets, which no calendar has.
    """

    month: str | None
    months: tuple[str, ...]
    cells: tuple[WindowCell, ...]
    others: tuple[BatchRow, ...]
    looked_at_ms: int
    not_asked: tuple[str, ...]


# ── what is asked for ─────────────────────────────────────────────────────────────────────────────────────────────────

BatchOrder = Literal["newest first", "oldest first"]
BatchState = Literal[
    "",
    "not committed",
    "being done again",
    "done again",
    "committed",
    "given way",
    "damaged",
    "lost or skipped",
    "set aside",
]
"""Empty: any. ``lost or skipped`` and ``set aside``: it has records that are; whatever its state is beside that."""
PartitionOrder = Literal["most left first", "most records first", "most lost first", "by name"]


@dataclass(frozen=True, slots=True)
class BatchesAsked:
    """Which batches.

    :ivar find: a number or a key: that batch and those next to it in the order; or a day (``2026-11-20``): from the
        first that was planned on it on. Empty: all.
    :ivar state: those alone, and as long as it takes to look at some dozens: from the one that ``find`` names on.
    """

    page: int = 1
    size: int = 20
    order: BatchOrder = "newest first"
    find: str = ""
    state: BatchState = ""


@dataclass(frozen=True, slots=True)
class PartitionsAsked:
    """Which partitions.

    :ivar find: a part of a topic's name, or a partition: ``orders``, ``orders[3]``, ``orders-3``.
    """

    page: int = 1
    size: int = 50
    order: PartitionOrder = "most left first"
    find: str = ""
