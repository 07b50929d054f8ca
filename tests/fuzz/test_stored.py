"""What is read from the work store: whatever stands there is a value, or an error of this package that names it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import KafkaOffsetsError, StoreDamaged
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.log.entries import Planned, entry_from_dict, entry_to_dict
from airflow_kafka_offsets.log.output_claims import owner_of
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, read_batch
from airflow_kafka_offsets.log.verify_reads import Attempt, ReadReport, unverified
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata, newest_batch, writer_of
from airflow_kafka_offsets.plan.plan_json import _plan_from_fields
from airflow_kafka_offsets.plan.position import position_after, position_within
from airflow_kafka_offsets.plan.window_claims import claim_of
from airflow_kafka_offsets.request.times import iso
from airflow_kafka_offsets.stores.objects import encode, read_object
from tests.fuzz.seeds import BEFORE, ENTRIES, LOG_PLAN, MARKS, OWNERS, REPORTS, RUNS
from tests.fuzz.strange import changed, changed_bytes, changed_text, fuzzed, noise, values
from tests.model.store import MemoryStore
from tests.reads import is_read
from tests.stores.builders import run

FOLDER = "pipelines/p/batches/00000000/0000000002"


def parsed(data: bytes, parse: Any) -> Any:
    """What the object says; ``None`` where it is refused."""
    store = MemoryStore()
    store.create("x.json", data)
    try:
        return read_object(store, "x.json", parse)
    except StoreDamaged as error:
        refused = str(error)
    assert "x.json" in refused
    return None


def stored(value: Any) -> bytes:
    """Any JSON under a digest that is right: an object that somebody made who can write to the store."""
    if not isinstance(value, dict):
        return json.dumps(value).encode()
    plan = value.get("plan")
    if isinstance(plan, dict):
        with suppress(Exception):  # else its id stays wrong, and that is what is found
            value = {**value, "plan": {**plan, "plan_id": _plan_from_fields(plan).plan_id}}
    return encode(value)


@fuzzed()
@given(changed(ENTRIES))
def test_an_entry_of_a_log_is_an_entry_or_damaged(data: Any) -> None:
    entry = parsed(stored(data), entry_from_dict)
    if entry is not None:
        assert entry_from_dict(json.loads(json.dumps(entry_to_dict(entry)))) == entry
    if isinstance(entry, Planned):
        plan = entry.plan
        assert sum(p.size for split in plan.splits for p in split) == sum(p.size for p in plan.to_read())
        assert set(plan.splits_to_start()) <= plan.splits_with_rows() <= set(range(plan.split_count))
        unverified(plan, {0: [Attempt(1)]})
        str(plan.batch), iso(plan.resolved_at_ms), claim_of(plan).name
        position_after(plan, BEFORE), position_within(plan, entry.position)


@fuzzed()
@given(changed(REPORTS))
def test_a_report_is_a_report_or_damaged(data: Any) -> None:
    report = parsed(stored(data), ReadReport.from_dict)
    if report is not None:
        assert ReadReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
        unverified(LOG_PLAN, {0: [Attempt(1, report)], 1: [Attempt(1, report)]})


@fuzzed()
@given(changed_bytes([encode(value) for value in (*ENTRIES, *REPORTS)]) | noise())
def test_altered_bytes_are_damaged(data: bytes) -> None:
    for parse in (entry_from_dict, ReadReport.from_dict):
        parsed(data, parse)


@fuzzed()
@given(st.lists(changed(ENTRIES) | st.sampled_from(ENTRIES), min_size=1, max_size=4), changed(REPORTS) | values)
def test_a_log_of_any_entries_is_read_or_damaged(entries: list[Any], report: Any) -> None:
    store = MemoryStore()
    log = PipelineLog(store, "p")
    for number, entry in enumerate(entries, 1):
        store.create(f"{FOLDER}/{number}.json", stored(entry))
    store.create(f"{FOLDER}/0-000001-abcd.begun.json", b"{}")
    store.create(f"{FOLDER}/0-000001-abcd.report.json", stored(report))
    before = dict(store.objects)
    with _only_ours():
        batch = read_batch(store, FOLDER)
        if batch is not None:
            list(batch.entries())
            is_read(batch)
    with _only_ours():
        log.newest_commit()
    assert store.objects == before


@fuzzed()
@given(changed(RUNS), changed(OWNERS))
def test_which_batch_a_run_took_and_whose_an_output_is_are_read_or_damaged(of_run: Any, owner: Any) -> None:
    store = MemoryStore()
    log = PipelineLog(store, "p")
    store.create(log._run(run(1)), stored(of_run))
    with _only_ours():
        taken = log.batch_of_run(run(1))
        if taken is not None and taken.folder is not None:
            log.read(taken.folder)
    store.create("outputs/x/1.json", stored(owner))
    with _only_ours():
        owner_of(store, "x")


@fuzzed()
@given(changed_text(MARKS) | changed([json.loads(mark) for mark in MARKS]).map(json.dumps))
def test_any_metadata_of_a_commit_is_a_mark_or_somebodys(metadata: str) -> None:
    held = {row.topic_partition: CommittedOffset(1, None, metadata) for row in LOG_PLAN.partitions}
    signature = CommitMetadata.by("p", "a")
    own = signature.own(held)
    newest_batch(own)
    signature.foreign(held, BEFORE)
    writer_of(next(iter(held.values())))
    mark = CommitMetadata.of(CommittedOffset(1, None, metadata))
    if mark is not None:
        assert CommitMetadata.of(CommittedOffset(1, None, mark.encode())) in (mark, None)


class _only_ours:
    """Errors of this package pass; any other fails the test."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return isinstance(error, KafkaOffsetsError)


@pytest.mark.parametrize("entries", [[ENTRIES[0]], [ENTRIES[0], ENTRIES[3], ENTRIES[4]], [ENTRIES[1], ENTRIES[5]]])
def test_the_seeds_are_whole(entries: list[dict[str, Any]]) -> None:
    store = MemoryStore()
    for number, entry in enumerate(entries, 1):
        store.create(f"{FOLDER}/{number}.json", encode(entry))
    assert read_batch(store, FOLDER) is not None
