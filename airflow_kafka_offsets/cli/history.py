"""``pipelines`` and ``show``: what a work store says of its pipelines, and of each batch. They ask no cluster."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice

from airflow_kafka_offsets.cli.batches import (
    by_whom,
    entries_of,
    facts_of,
    is_verified,
    name_of,
    ranges_of,
    since_when,
    splits_of,
)
from airflow_kafka_offsets.cli.inputs import Options, find_batch, pipeline_asked_for, work_store
from airflow_kafka_offsets.cli.render import Page, Table, say
from airflow_kafka_offsets.cli.render import show as show_page
from airflow_kafka_offsets.errors import InvalidRequest, NoPosition, StoreDamaged
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.request.times import iso
from airflow_kafka_offsets.offsets.window.claims import time_claim_of_name
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog, StoredBatch, pipeline_ids
from airflow_kafka_offsets.stores.store import together


def pipelines(options: Options) -> int:
    """A line for each pipeline's log, and one for its windows; 3 where one cannot be read."""
    store = work_store(options)
    output = options.get("output")
    rows: list[tuple[object, ...]] = []
    damaged = []
    names = pipeline_ids(store)
    for name in names:
        try:
            rows += _rows_of(PipelineLog(store, name), for_programs=output == "json")
        except StoreDamaged as error:
            damaged.append(error)
            rows.append((name, "damaged", *[None] * 10))
    hidden = ("goes on after", "windows", "key", "number", "group id")
    columns = ("pipeline", "newest", "committed", "last run", "at", "position", "unfinished", *hidden)
    table = Table(columns, rows, "pipelines", hidden=hidden)
    summary = f"{len(names)} pipeline{'s' * (len(names) != 1)} in {store.uri}"
    show_page(Page([table], {"work_store": store.uri}, summary), output)
    say(*(f"kafka-offsets: {error}" for error in damaged))
    return StoreDamaged.exit_status if damaged else 0


def _rows_of(pipeline: PipelineLog, *, for_programs: bool) -> list[tuple[object, ...]]:
    found = []
    newest = pipeline.newest()
    if newest is not None:
        found.append(_row_of_log(pipeline, newest, for_programs))
    names = pipeline.windows()
    read = together(pipeline.store, *(partial(pipeline.window, name) for name in names))
    windows = {name: window for name, window in zip(names, read, strict=True) if window is not None}
    if windows:
        found.append(_row_of_windows(pipeline, windows, for_programs))
    return found


def _row_of_log(pipeline: PipelineLog, newest: StoredBatch, for_programs: bool) -> tuple[object, ...]:
    commit = pipeline.newest_commit(newest)
    position = commit.log.committed.position if commit and commit.log.committed else None
    offsets = {tp: kept.offset for tp, kept in position.offsets.items()} if position else {}
    told: object = _nested(offsets) if for_programs else _in_words(offsets)
    unfinished = [] if newest.log.committed else [newest]
    after = str(commit.log.plan.batch) if commit else None
    return _row(pipeline, newest, told, _unfinished(unfinished, for_programs), after, None)


def _row_of_windows(
    pipeline: PipelineLog, windows: Mapping[str, StoredBatch], for_programs: bool
) -> tuple[object, ...]:
    """Windows stand alone: they have no position, and any of them may be unfinished."""
    by_time = [name for name in windows if time_claim_of_name(name)]
    last = windows[(by_time or list(windows))[-1]]
    unfinished = [window for window in windows.values() if not window.log.committed]
    return _row(pipeline, last, None, _unfinished(unfinished, for_programs), None, len(windows))


def _row(
    pipeline: PipelineLog,
    batch: StoredBatch,
    position: object,
    unfinished: object,
    after: str | None,
    windows: int | None,
) -> tuple[object, ...]:
    log, plan = batch.log, batch.log.plan
    return (
        pipeline.pipeline_id,
        name_of(plan),
        log.committed is not None,
        by_whom(log),
        iso(since_when(log)),
        position,
        unfinished,
        after,
        windows,
        plan.batch.key if plan.batch else None,
        plan.batch.number if plan.batch else None,
        plan.asked.group_id,
    )


def _unfinished(batches: list[StoredBatch], for_programs: bool) -> object:
    """Their keys; for people the first few of their names."""
    plans = [batch.log.plan for batch in batches]
    if for_programs:
        return [plan.batch.key for plan in plans if plan.batch]
    return _first([name_of(plan) for plan in plans], 2) or None


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """``{"orders": {"0": 4}}``."""
    found: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return found


def _in_words(offsets: Mapping[TopicPartition, int]) -> str | None:
    return _first([f"{tp}:{offsets[tp]}" for tp in sorted(offsets)], 3) or None


def _first(words: list[str], shown: int) -> str:
    more = [f"and {len(words) - shown} more"] if len(words) > shown else []
    return " ".join([*words[:shown], *more])


def show(options: Options) -> int:
    """One batch with its log, its splits and its ranges; or a line for each of the last few."""
    count, windows = options.get("history"), bool(options.get("windows"))
    if count is not None and count < 1:
        raise InvalidRequest((f"--history is {count}; give a number of at least 1.",))
    if options.get("batch") is not None and (count is not None or windows):
        raise InvalidRequest(("--batch shows one batch: give it without --history and --windows.",))
    pipeline = pipeline_asked_for(options)
    if windows:
        names = pipeline.windows()
        found = (window for name in reversed(names) if (window := pipeline.window(name)) is not None)
        return _show_many(pipeline, list(islice(found, count)), "windows", options)
    if count is not None:
        return _show_many(pipeline, list(islice(pipeline.newest_first(), count)), "batches", options)
    batch = find_batch(pipeline, options["batch"]) if options.get("batch") is not None else pipeline.newest()
    if batch is None:
        raise NoPosition(
            [f"Pipeline {pipeline.pipeline_id!r} has no batch in its log"],
            f"It has {len(pipeline.windows())} windows: kafka-offsets show --windows lists them.",
        )
    return _show_one(pipeline, batch, options)


def _show_one(pipeline: PipelineLog, batch: StoredBatch, options: Options) -> int:
    facts, plan = facts_of(batch), batch.log.plan
    state = "committed by" if facts["committed"] else "not committed; with"
    head = [f"{name_of(plan)} of pipeline {pipeline.pipeline_id!r}: {state} {facts['by']}, {facts['at']}"]
    told = (("key", "key"), ("after", "after"), ("output", "output"), ("group_id", "group"))
    head += [f"{word}: {facts[name]}" for name, word in told if facts[name]]
    head += [f"warning: {warning}" for warning in plan.warnings]
    tables = [ranges_of(plan), entries_of(batch), splits_of(batch)]
    page = Page(tables, {"pipeline_id": pipeline.pipeline_id, **facts}, head="\n".join(head))
    show_page(page, options.get("output"))
    return 0


def _show_many(pipeline: PipelineLog, batches: list[StoredBatch], name: str, options: Options) -> int:
    shown = ("batch", "committed", "by", "at", "plan", "records", "lost", "skipped", "unread", "verified")
    columns = (*shown, "key", "stored as")
    rows = []
    for batch in batches:
        log, plan = batch.log, batch.log.plan
        rows.append(
            (
                name_of(plan),
                log.committed is not None,
                by_whom(log),
                iso(since_when(log)),
                plan.reason or "first",
                plan.record_count_upper_bound,
                plan.lost,
                plan.skipped,
                log.unread,
                is_verified(splits_of(batch)),
                plan.batch.key if plan.batch else None,
                batch.name,
            )
        )
    table = Table(columns, rows, name, hidden=("stored as",))
    summary = f"{len(rows)} {name}, newest first"
    short = [batch for batch in batches if batch.log.unread]
    if short:
        summary += (
            f"\nwarning: {len(short)} of them lack offsets that their times gave when a run last did them (unread): a "
            "topic was added, or records came late. re_plan in a run's conf reads them."
        )
    page = Page([table], {"pipeline_id": pipeline.pipeline_id}, summary)
    show_page(page, options.get("output"))
    return 0
