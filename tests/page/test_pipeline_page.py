"""The page of a pipeline: the sentence, the figures, the batches, and what it says where something does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, get_args

import pytest

from airflow_kafka_offsets.batch.pipeline_status import NextRun, clock
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import ClusterUnavailable, StoreUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.batch_lines import BatchLine, line_of, read_lines
from airflow_kafka_offsets.page import pipeline_page
from airflow_kafka_offsets.page.kafka_look import KafkaLooks
from airflow_kafka_offsets.page.pipeline_page import NO_KAFKA, WAITING, pipeline_view
from airflow_kafka_offsets.page.views import BatchesAsked, BatchState
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.request.times import iso
from tests.contract.pipeline import Pipeline
from tests.page.conftest import LONG_S, TOPIC, figures, page_of, produce, report_some_as_bad, run, said, values, view
from tests.stores.builders import as_it_is_now

MINUTE = 60_000


def rows_of(pipeline: Pipeline, **asked: Any) -> list[str]:
    return [row.title for row in view(pipeline, BatchesAsked(**asked)).batches.rows]


# ── what all is well looks like ───────────────────────────────────────────────────────────────────────────────────────


def test_the_page_says_how_a_pipeline_stands(pipeline: Pipeline) -> None:
    produce(pipeline, 2)
    pipeline.run(run(10))
    produce(pipeline, 4)
    pipeline.run(run(11))
    produce(pipeline, 5, ago_ms=3 * MINUTE)
    seen = view(pipeline)
    assert seen.not_asked == ()
    assert said(seen).startswith("Every batch is committed. Batch 2 read up to ")
    assert "Since then 15 records have come, the oldest 3 min ago. Nothing is lost or skipped." in said(seen)
    assert (figures(seen)["unread"], values(seen)["oldest"], values(seen)["retention"]) == (15, "3 min", "never")
    assert (figures(seen)["lost"], figures(seen)["set_aside"]) == (0, 0)
    assert [row.title for row in seen.batches.rows] == ["2", "1"]
    assert [(point.title, point.records) for point in seen.chart] == [("1", 6), ("2", 12)]
    newest, first = seen.batches.rows
    assert (newest.state, newest.records, newest.splits) == ("committed", 12, "1 of 1 whole")
    assert (newest.why, first.why) == ("goes on from batch 1", "the first: earliest-offset decides where it starts")
    assert [link.words for link in newest.runs] == ["scheduled 20 Nov 11:00"]
    assert seen.about[0] == ("group", "orders-to-lake")
    assert "--pipeline-id pipeline" in seen.command


def test_a_partition_that_is_new_counts_as_unread_from_its_log_start(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    pipeline.cluster.add_partitions(TOPIC, 4)
    pipeline.cluster.produce(TopicPartition(TOPIC, 3), [pipeline.now_ms] * 7)
    assert figures(view(pipeline))["unread"] == 7


def test_names_that_are_html_are_data(pipeline: Pipeline) -> None:
    odd = replace(pipeline, pipeline_id="<script>alert(1)</script>")
    produce(odd)
    odd.run(run(10))
    seen = view(odd)
    assert seen.pipeline_id == "<script>alert(1)</script>"
    assert asdict(seen)["pipeline_id"] == seen.pipeline_id


def test_the_next_run_is_told_with_its_schedule(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    seen = view(pipeline, next_run=lambda: NextRun(pipeline.now_ms + 3_600_000, "@hourly"))
    next_run = next(figure for figure in seen.figures if figure.name == "next_run")
    assert next_run.value in ("59 min", "1 h")
    assert "@hourly" in next_run.words


# ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_is_not_committed_says_who_has_it(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    produce(pipeline)
    pipeline.resolve(run(11))
    seen = view(pipeline)
    assert said(seen).startswith(
        "Batch 2 is not committed: it is with run dag/scheduled__2026-11-20T11:00:00+00:00/resolve"
    )
    row = seen.batches.rows[0]
    assert (row.state, row.tone, row.splits, row.took_ms) == ("not committed", "open", "0 of 1 whole", None)
    assert [point.title for point in seen.chart] == ["1"], "nothing of it is read yet"
    assert seen.can == ("skip",)


def test_a_batch_that_is_done_again_is_told_by_its_reports(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    again = pipeline.resolve(run(10))
    assert view(pipeline).batches.rows[0].state == "being done again"
    assert "Batch 1 is being done again." in said(view(pipeline))
    again.spark()
    row = view(pipeline).batches.rows[0]
    assert (row.state, row.splits) == ("done again", "1 of 1 whole")
    assert [link.words for link in row.runs][1].startswith("cleared ")


def test_what_is_lost_and_set_back_stands_in_the_totals_and_the_batch(pipeline: Pipeline) -> None:
    produce(pipeline, 3)
    pipeline.run(run(10))
    produce(pipeline, 3)
    pipeline.cluster.delete_records(TopicPartition(TOPIC, 0), 5)
    pipeline.run(run(11), policies={"data_loss": "advance"})
    produce(pipeline, 1)
    pipeline.run(run(12))
    seen = view(pipeline)
    assert figures(seen)["lost"] == 2
    assert "2 records are lost or skipped, last in batch 2." in said(seen)
    assert [row.lost for row in seen.batches.rows] == [0, 2, 0]
    assert [point.lost for point in seen.chart] == [0, 2, 0]


def test_a_persons_position_is_named(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    pipeline.reset_to_earliest()
    seen = view(pipeline)
    row = seen.batches.rows[0]
    assert row.why.startswith("reset ")
    assert row.why.endswith(": because")
    assert [link.words for link in row.runs] == ["a person at the command line"]
    assert row.splits == "none to read"
    assert "Batch 2 set the position at " in said(seen)


def test_a_damaged_batch_is_a_row_and_the_others_stay(pipeline: Pipeline) -> None:
    for hour in (10, 11, 12):
        produce(pipeline)
        pipeline.run(run(hour))
    store: Any = pipeline.store
    name = f"{pipeline.log.folder_of(2)}/2.json"
    store.delete(name)
    store.create(name, b'{"version":1}')
    seen = view(pipeline)
    assert [row.state for row in seen.batches.rows] == ["committed", "damaged", "committed"]
    assert "2.json" in seen.batches.rows[1].why


def test_batches_are_paged_ordered_and_found_on_the_server(pipeline: Pipeline) -> None:
    for hour in range(7):
        produce(pipeline, 1)
        pipeline.run(run(hour))
    assert rows_of(pipeline, size=3) == ["7", "6", "5"]
    assert rows_of(pipeline, size=3, page=3) == ["1"]
    assert rows_of(pipeline, size=3, page=99) == ["1"]
    assert rows_of(pipeline, size=3, order="oldest first") == ["1", "2", "3"]
    assert rows_of(pipeline, size=3, find="2") == ["4", "3", "2"], "the page that it lies on"
    assert rows_of(pipeline, size=3, find="999") == []
    assert rows_of(pipeline, size=3, find="<script>") == []
    seen = view(pipeline, BatchesAsked(size=3)).batches
    assert (seen.number, seen.pages, seen.total) == (1, 3, 7)


def test_batches_in_a_state_are_found_on_the_server_some_dozens_at_a_time(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in range(10):
        produce(pipeline, 3)
        if hour == 3:
            pipeline.cluster.delete_records(TopicPartition(TOPIC, 0), 11)
        lost = {"policies": {"data_loss": "advance"}} if hour == 3 else {}
        resolved = pipeline.resolve(run(hour), **lost)
        report_some_as_bad(resolved, set_aside=int(hour == 5), left_out=0)
        resolved.commit()
    pipeline.resolve(run(4)).spark()  # cleared
    pipeline.resolve(run(7))
    store: Any = pipeline.store
    damaged = f"{pipeline.log.folder_of(2)}/2.json"
    store.delete(damaged)
    store.create(damaged, b'{"version":1}')
    produce(pipeline)
    pipeline.resolve(run(10))
    found = {
        "not committed": ["11"],
        "being done again": ["8"],
        "done again": ["5"],
        "damaged": ["2"],
        "lost or skipped": ["4"],
        "set aside": ["6"],
        "given way": [],
        "committed": ["10", "9", "7", "6", "4", "3", "1"],
    }
    assert {"", *found} == set(get_args(BatchState))
    for state, names in found.items():
        assert rows_of(pipeline, state=state) == names, state
        assert rows_of(pipeline, state=state, order="oldest first") == names[::-1], state

    seen = view(pipeline, BatchesAsked(state="committed", size=3)).batches
    assert ([row.name for row in seen.rows], seen.looked, seen.further) == (["10", "9", "7"], 5, "6")
    monkeypatch.setattr(pipeline_page, "IN_CHART", 4)
    looks, further = [], ""
    while further is not None:
        seen = view(pipeline, BatchesAsked(state="damaged", find=further)).batches
        looks.append(([row.name for row in seen.rows], seen.looked))
        further = seen.further
    assert looks == [([], 4), ([], 4), (["2"], 3)]
    assert (seen.matching, seen.total) == (1, 11)
    assert rows_of(pipeline, state="damaged", find="999") == []


@pytest.mark.parametrize("count", [1, 2, 17, 40])
def test_the_first_batch_of_a_day_is_found(pipeline: Pipeline, count: int) -> None:
    day = 86_400_000
    begin = pipeline.now_ms // day * day - 60 * day
    for number in range(count):
        produce(pipeline, 1)
        replace(pipeline, now_ms=begin + number * day + 5).run(run(number % 24) if number < 24 else f"r{number}")
    for number in {0, count // 2, count - 1}:
        asked = iso(begin + number * day)[:10]
        first = rows_of(pipeline, size=1, find=asked)
        assert first == [str(number + 1)], asked
    assert rows_of(pipeline, size=1, find="2020-01-01") == ["1"]
    assert rows_of(pipeline, size=1, find="2030-01-01") == [str(count)], "the last there is"


def test_a_line_of_a_list_says_what_the_whole_log_says(pipeline: Pipeline) -> None:
    """Each state of a batch, read by its last entries, and by its plan."""

    def both() -> None:
        folders = [pipeline.log.folder_of(number) for number in range(1, pipeline.newest.log.plan.batch.number or 0)]
        folders.append(pipeline.newest.folder)
        short = read_lines(pipeline.store, folders)
        for line, folder in zip(short, folders, strict=True):
            batch = pipeline.log.read(folder.removeprefix(f"{pipeline.log.root}/"))
            assert batch is not None
            whole = line_of(batch)
            assert isinstance(line, BatchLine)
            assert line.summary == whole.summary
            assert whole.summary.totals == batch.log.history.totals
            assert (line.taken, line.attempts, line.whole) == (whole.taken, whole.attempts, whole.whole)
            assert (line.committed is None) == (whole.committed is None)

    produce(pipeline)
    first = pipeline.resolve(run(10), splits=2)
    both()
    first.spark([0])
    both()
    first.spark([1]).commit()
    both()
    produce(pipeline)
    pipeline.resolve(run(11))
    taken = pipeline.resolve(run(12))
    both()
    taken.done()
    both()
    pipeline.resolve(run(12))
    both()
    produce(pipeline)
    unfinished = pipeline.resolve(run(13))
    pipeline.skip(Skip(unfinished.batch_key, reason="poison"))
    both()
    pipeline.run(run(14))
    both()
    pipeline.reset_to_earliest()
    both()
    assert as_it_is_now(pipeline.newest).log.history.totals.batches == 4
    assert as_it_is_now(pipeline.newest).log.history.totals.skipped == 6


@pytest.mark.parametrize(
    ("late_s", "value", "words", "phrase"),
    [
        (-90, "1 min", "to the next run (", ""),
        (20, "0 s", "to the next run (", ""),
        (3_600, "overdue", "the next run, since ", "The next run is overdue since "),
    ],
)
def test_a_next_run_that_should_have_begun_is_said_to_be_overdue_since_then(
    pipeline: Pipeline, late_s: int, value: str, words: str, phrase: str
) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    at_ms = now_ms() - late_s * 1000
    seen = view(pipeline, next_run=lambda: NextRun(at_ms, "@hourly"))
    figure = next(figure for figure in seen.figures if figure.name == "next_run")
    since = clock(at_ms, now_ms())
    assert figure.value == value
    assert figure.words.startswith(words)
    assert since in figure.words
    assert (f"{phrase}{since}." in said(seen)) if phrase else "overdue" not in said(seen)


# ── what does not answer ──────────────────────────────────────────────────────────────────────────────────────────────


def broken(error: Exception) -> Any:
    @contextmanager
    def open_cluster() -> Iterator[Any]:
        raise error
        yield

    return open_cluster


def test_without_kafka_the_page_says_what_the_log_says_and_unknown_is_unknown(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    down = broken(ClusterUnavailable("Cannot ask the cluster", "no broker answers", "Look at it."))
    seen = view(pipeline, open_cluster=down)
    assert len(seen.not_asked) == 1
    assert seen.not_asked[0].startswith("Kafka could not be asked: ")
    assert (values(seen)["unread"], values(seen)["oldest"], values(seen)["retention"]) == ("unknown",) * 3
    assert figures(seen)["lost"] == 0
    assert "How many records have come since is not known." in said(seen)
    assert [row.records for row in seen.batches.rows] == [6]
    assert not seen.is_waiting


def test_a_pipeline_whose_connection_nobody_knows_yet_has_a_page(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    assert view(pipeline, open_cluster=None).not_asked == (NO_KAFKA,)


def test_a_kafka_that_takes_its_time_is_not_waited_for(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    go_on = threading.Event()

    @contextmanager
    def slow() -> Iterator[Any]:
        go_on.wait(LONG_S)
        yield pipeline.cluster

    looks = KafkaLooks(wait_s=0.0)
    page = page_of(pipeline, open_cluster=slow)
    seen = pipeline_view(page, BatchesAsked(), looks)
    assert (seen.not_asked, seen.is_waiting, values(seen)["unread"]) == ((WAITING,), True, "unknown")
    go_on.set()
    assert looks.begin(pipeline.log, line_of(pipeline.newest), slow).over.wait(LONG_S)
    again = pipeline_view(page, BatchesAsked(), looks)
    assert (again.not_asked, again.is_waiting, figures(again)["unread"]) == ((), False, 0)


def test_without_the_store_there_is_a_page_that_says_so(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(pipeline)
    pipeline.run(run(10))

    def gone(*_: object) -> Any:
        raise StoreUnavailable("Cannot list it", "no route", "Look at it.")

    monkeypatch.setattr(type(pipeline.store), "list", gone)
    seen = view(pipeline)
    assert len(seen.not_asked) == 1
    assert "no route" in seen.not_asked[0]
    assert (seen.sentence, seen.batches.total, seen.newest) == ((), 0, None)
    assert set(values(seen).values()) - {"none"} == {"unknown"}


def test_an_airflow_whose_database_does_not_answer_leaves_the_rest(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))

    def down() -> NextRun:
        raise RuntimeError("database is locked")

    seen = view(pipeline, next_run=down)
    assert seen.not_asked == ("Airflow could not be asked for the next run: RuntimeError",)
    assert values(seen)["next_run"] == "unknown"
    assert figures(seen)["unread"] == 0


def test_a_pipeline_without_a_batch_has_a_page(pipeline: Pipeline) -> None:
    seen = view(pipeline)
    assert said(seen) == "The pipeline has no batch yet."
    assert (seen.batches.total, seen.can, seen.newest) == (0, (), None)
