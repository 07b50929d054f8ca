"""The page of a pipeline: what the log says, and beside it what Kafka and Airflow say, as far as they answer.

Whatever does not answer leaves a line in ``not_asked``, and the rest of the page as it is.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from airflow_kafka_offsets.batch.pipeline_status import NextRun, PipelineStatus, figures, sentence
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.log.batch_lines import BatchLine, Line, read_lines
from airflow_kafka_offsets.log.entries import Totals
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.batch_rows import batch_row, is_in, name_in_addresses
from airflow_kafka_offsets.page.dag_pipelines import NewestFound, PagePipeline, found_in
from airflow_kafka_offsets.page.kafka_look import LOOKS, KafkaAnswer, KafkaLooks
from airflow_kafka_offsets.page.views import BatchesAsked, BatchRow, Page, PipelineView
from airflow_kafka_offsets.plan.plan import number_named
from airflow_kafka_offsets.plan.window_claims import time_claim_of_name
from airflow_kafka_offsets.request.times import parse_timestamp_ms

IN_CHART = 48
_PROBES = 15
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
NO_KAFKA = "Which Kafka connection the pipeline has is not known: its resolve task says so in its next run."
WAITING = "Kafka has not answered yet: what only Kafka knows is unknown. Load the page again."


def pipeline_view(pipeline: PagePipeline, asked: BatchesAsked, looks: KafkaLooks = LOOKS) -> PipelineView:
    """The page without the partitions. It raises nothing: a store that does not answer is in ``not_asked``."""
    now, not_asked = now_ms(), list[str]()
    lines: list[Line] = []
    found = NewestFound(None, None, None, ())
    batches: Page[BatchRow] = Page((), 1, 1, 0, 0)
    answer, next_run = None, _next_run(pipeline, not_asked)
    try:
        found = found_in(pipeline)
        if found.batch is not None and pipeline.open_cluster is not None:  # it answers while the log is read
            looks.begin(pipeline.log, found.batch, pipeline.open_cluster)
        names = _Names(pipeline.log, found)
        shown = names.page(asked)
        newest = names.newest(IN_CHART)
        wanted = list(dict.fromkeys((*newest, *shown.rows)))
        in_chart_alone = set(newest) - set(shown.rows) if found.numbers else ()
        by_folder = {line.folder: line for line in read_lines(pipeline.log.store, wanted, in_chart_alone)}
        lines = [by_folder[folder] for folder in newest if folder in by_folder]
        batches = _rows(shown, by_folder, asked, now)
    except KafkaOffsetsError as error:
        not_asked.append(str(error))
    if found.batch is not None:
        answer = kafka_answer(pipeline, found, looks, not_asked)
    status = _status(found, answer, lines, now, next_run)
    return PipelineView(
        pipeline_id=pipeline.log.pipeline_id,
        dag_id=pipeline.dag_id,
        task_id=pipeline.task_id,
        about=_about(pipeline, found),
        sentence=sentence(status) if found.newest or not not_asked else (),
        figures=figures(status),
        chart=tuple(batch_row(line, now) for line in reversed(lines) if isinstance(line, BatchLine) and line.committed),
        batches=batches,
        newest=_name(found),
        has_windows=bool(found.window_places),
        looked_at_ms=answer.looked_at_ms if answer else now,
        is_waiting=WAITING in not_asked,
        not_asked=tuple(not_asked),
        command=command(pipeline),
        can=_can(found, pipeline.instance),
    )


def kafka_answer(
    pipeline: PagePipeline, found: NewestFound, looks: KafkaLooks, not_asked: list[str]
) -> KafkaAnswer | None:
    """What Kafka says, as far as it answers; and what it did not say, in ``not_asked``."""
    if found.batch is None:
        return None
    if pipeline.open_cluster is None:
        not_asked.append(NO_KAFKA)
        return None
    answer = looks.answer(pipeline.log, found.batch, pipeline.open_cluster)
    not_asked += [WAITING] if answer is None else answer.not_known
    return answer


def command(pipeline: PagePipeline) -> str:
    """The command line that says the same."""
    words = ["airflow", "kafka-offsets", "show", "--pipeline-id", pipeline.log.pipeline_id]
    return shlex.join([*words, "--work-store", pipeline.log.store.uri])


def _next_run(pipeline: PagePipeline, not_asked: list[str]) -> NextRun | None:
    try:
        return pipeline.next_run()
    except Exception as error:  # any: of Airflow's database, whose messages may hold a secret
        not_asked.append(f"Airflow could not be asked for the next run: {type(error).__name__}")
        return None


def _status(
    found: NewestFound, answer: KafkaAnswer | None, lines: Sequence[Line], now: int, next_run: NextRun | None
) -> PipelineStatus:
    if found.batch is None:
        return PipelineStatus(found.window, now, _totals_of(lines) if found.window else None, next_run=next_run)
    measured = answer.measured if answer else None
    lag, keeps_all = (measured.together, measured.keeps_all) if measured else (None, False)
    return PipelineStatus(found.batch, now, found.batch.summary.totals, lag, keeps_all, next_run)


def _totals_of(lines: Sequence[Line]) -> Totals:
    """Of windows, which have no totals of their own."""
    done = [(line.summary, line.committed) for line in lines if isinstance(line, BatchLine) and line.committed]
    return Totals(
        len(done),
        sum(summary.records for summary, _ in done),
        sum(summary.lost for summary, _ in done),
        sum(summary.skipped for summary, _ in done),
        sum(committed.set_aside for _, committed in done),
        sum(committed.left_out for _, committed in done),
    )


def _rows(shown: Page[str], by_folder: Mapping[str, Line], asked: BatchesAsked, now: int) -> Page[BatchRow]:
    """Of the folders of a page all that are there; of a portion those in the state, as many as a page has."""
    if not asked.state:
        rows = tuple(batch_row(by_folder[folder], now) for folder in shown.rows if folder in by_folder)
        return Page(rows, shown.number, shown.pages, shown.matching, shown.total)
    there = [
        (place, by_folder[folder])
        for place, folder in enumerate(shown.rows)
        if folder in by_folder and is_in(by_folder[folder], asked.state)
    ]
    looked, further = len(shown.rows), shown.further
    if len(there) > asked.size:
        looked = there[asked.size][0]
        further = name_in_addresses(shown.rows[looked])
    rows = tuple(batch_row(line, now) for _, line in there[: asked.size])
    return Page(rows, 1, 1, len(rows), shown.total, looked, further)


def _name(found: NewestFound) -> str | None:
    return name_in_addresses(found.newest.folder) if found.newest else None


def _about(pipeline: PagePipeline, found: NewestFound) -> tuple[tuple[str, str], ...]:
    asked = found.newest.summary if found.newest else None
    named = {
        "group": asked.group_id if asked else None,
        "log": pipeline.log.store.uri,
        "output": asked.output if asked else None,
    }
    return tuple((label, text) for label, text in named.items() if text)


def _can(found: NewestFound, instance: str | None) -> tuple[str, ...]:
    """Which actions make sense now. Of another Airflow's pipeline it is taken over first."""
    if found.batch is None:
        return ("skip", "redo") if found.window else ()
    if instance is not None and found.batch.last_instance not in (None, instance):
        return ("take over",)
    return ("reset", "redo") if found.batch.committed else ("skip",)


class _Names:
    """The folders of a pipeline's batches, or of its windows where it has no others; the newest has the last place."""

    def __init__(self, log: PipelineLog, found: NewestFound) -> None:
        self._log, self._numbers = log, found.numbers
        self._windows: list[str] = []
        if found.numbers is None and found.window_places:
            names = log.windows()
            self._windows = sorted(names, key=lambda name: (time_claim_of_name(name) is not None, name))

    @property
    def total(self) -> int:
        return len(self._windows) if self._numbers is None else self._numbers[1] - self._numbers[0] + 1

    def newest(self, count: int) -> list[str]:
        """The newest first."""
        return [self._at(place) for place in range(self.total - 1, max(self.total - 1 - count, -1), -1)]

    def page(self, asked: BatchesAsked) -> Page[str]:
        """The folders of one page. What is looked for is on it, and the page is the one that it lies on anyway.

        For a state, those that are looked at: from the one that is looked for on.
        """
        total, size, find = self.total, max(1, min(asked.size, 200)), asked.find.strip()
        place = self._place_of(find) if find and total else None
        if find and total and place is None:
            return Page((), 1, 1, 0, total)
        is_up = asked.order == "oldest first"
        places = range(total) if is_up else range(total - 1, -1, -1)
        first = 0 if place is None else place if is_up else total - 1 - place
        if not asked.state:
            page = Page.of(places, asked.page if place is None else first // size + 1, size, total)
            return Page(tuple(map(self._at, page.rows)), page.number, page.pages, page.matching, total)
        looked, rest = places[first : first + IN_CHART], places[first + IN_CHART :]
        further = name_in_addresses(self._at(rest[0])) if rest else None
        return Page(tuple(map(self._at, looked)), 1, 1, 0, total, further=further)

    def _at(self, place: int) -> str:
        if self._numbers is None:
            return self._log.folder_of_window(self._windows[place])
        return self._log.folder_of(self._numbers[0] + place)

    def _place_of(self, find: str) -> int | None:
        """Where a number, a key, a window's name or the first batch of a day is."""
        if _DAY.fullmatch(find):
            try:
                return self._first_since(parse_timestamp_ms(find))
            except ValueError:
                return None
        if self._numbers is None:
            return self._windows.index(find) if find in self._windows else None
        number = number_named(find)
        return number - self._numbers[0] if number and self._numbers[0] <= number <= self._numbers[1] else None

    def _first_since(self, at_ms: int) -> int | None:
        """The first that was planned, or of windows the first that begins, at or after a time; else the last one."""
        low, high = 0, self.total
        if self._numbers is None:
            bounds = [time_claim_of_name(name) for name in self._windows]
            return min(bisect_left([claim.start_ms if claim else 0 for claim in bounds], at_ms), high - 1)
        while high - low > 1:  # several at once, since each look takes as long as many
            step = max(1, -(-(high - low) // (_PROBES + 1)))
            probes = list(range(low + step, high, step))
            folders = list(map(self._at, probes))
            found = {line.folder: line for line in read_lines(self._log.store, folders, folders)}
            for place in probes:
                line = found.get(self._at(place))
                if isinstance(line, BatchLine) and line.summary.planned_ms >= at_ms:
                    high = place
                    break
                low = place
            if not probes:
                break
        first = next(iter(read_lines(self._log.store, [self._at(low)])), None)
        at_low = isinstance(first, BatchLine) and first.summary.planned_ms >= at_ms
        return low if at_low else min(high, self.total - 1)
