"""A batch is ordinary where its columns fit exactly; with any of them altered it is read whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets.log.audit import BatchRecord, OrdinaryBatch, audit_batches
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.ordinary_batch import ordinary_batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.whole_log import whole_records
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.stores.objects import decode, encode
from tests.builders import PIPELINE, planned, position
from tests.model.store import MemoryStore
from tests.stores.builders import commit, plan_of, read

PLAN, COMMIT, REPORT = "1", "2", "1-000001-abcd.report"
Stored = dict[str, Any]


@pytest.fixture
def store() -> MemoryStore:
    """Batch 2: three partitions by two splits, after a position that has a fourth; and batch 1 before it."""
    store = MemoryStore()
    log = PipelineLog(store, PIPELINE)
    before = position({0: 10, 1: 20, 2: 30})
    for number in (1, 2):
        rows = [planned(n, at.offset, at.offset + 10) for (_, n), at in before.offsets.items()]
        begun = log.begin(number, Planned(plan_of(number, rows, splits=2, topic_ids=before.topic_ids), before))
        assert begun is not None
        read(begun)
        commit(begun)
        before = position_after(begun.log.plan, before)
    return store


def folder_of(store: MemoryStore) -> str:
    [folder] = {name.rpartition("/")[0] for name in store.objects if "/0000000002/" in name}
    return folder


def ordinary(store: MemoryStore) -> OrdinaryBatch | None:
    folder = folder_of(store)
    return ordinary_batch(store, folder, store.list(folder), lambda: BatchRecord((), {}))


def test_a_batch_without_a_fault_is_ordinary_and_is_told_as_the_whole_reading_tells_it(store: MemoryStore):
    *_, last = audit_batches(whole_records(PipelineLog(store, PIPELINE), None, None))
    found = ordinary(store)
    assert found is not None
    assert found.audited == last
    assert (found.number, found.audited.read, found.audited.findings) == (2, 30, ())


def within(*path: str, to: Any) -> Callable[[Stored], None]:
    """A field of an object has another value."""

    def change(stored: Stored) -> None:
        *above, last = path
        for name in above:
            stored = stored[name]
        stored[last] = to

    return change


def column(*path: str, plus: int = 1) -> Callable[[Stored], None]:
    """The first value of a column of topic ``orders`` is another one."""

    def change(stored: Stored) -> None:
        *above, last = path
        for name in (*above, "topics", "orders"):
            stored = stored[name]
        stored[last][0] += plus

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(PLAN, within("version", to=2), id="an entry of a later version"),
        pytest.param(PLAN, within("plan", "version", to=2), id="a plan of a later version"),
        pytest.param(PLAN, within("entry", to="taken"), id="no plan"),
        pytest.param(PLAN, within("plan", "window", to=True), id="a window"),
        pytest.param(PLAN, within("plan", "restarted", to=True), id="a restart"),
        pytest.param(PLAN, within("plan", "reason", to="reset"), id="a person's plan"),
        pytest.param(PLAN, within("plan", "overwrites", to=[1]), id="a split to overwrite"),
        pytest.param(PLAN, within("plan", "verified", to={"0": {}}), id="a split that was kept"),
        pytest.param(PLAN, within("plan", "cluster_id", to="cluster-2"), id="another cluster"),
        pytest.param(PLAN, within("plan", "topics", "orders", "topic_id", to="another"), id="another topic"),
        pytest.param(PLAN, within("position", to=None), id="no position"),
        pytest.param(PLAN, column("position", "offset"), id="it starts below the position"),
        pytest.param(PLAN, column("position", "partition", plus=9), id="the position has another partition"),
        pytest.param(PLAN, column("plan", "start_offset"), id="it starts later"),
        pytest.param(PLAN, column("plan", "position"), id="it goes on from elsewhere"),
        pytest.param(PLAN, column("plan", "end_offset"), id="it ends later"),
        pytest.param(PLAN, column("plan", "lost"), id="lost"),
        pytest.param(PLAN, column("plan", "skipped"), id="skipped"),
        pytest.param(PLAN, column("plan", "gap"), id="a gap"),
        pytest.param(PLAN, within("plan", "topics", "orders", "split", to=[[[0, 0, 5]], 0, 1]), id="pieces"),
        pytest.param(PLAN, within("plan", "topics", "orders", "split", to=[None, 0, 1]), id="of no split"),
        pytest.param(PLAN, within("plan", "topics", "orders", "split", to=[0, 0, 0]), id="of another split"),
        pytest.param(PLAN, within("plan", "topics", "orders", "lost", to=None), id="a column is not there"),
        pytest.param(COMMIT, within("version", to=2), id="a commit of a later version"),
        pytest.param(COMMIT, within("entry", to="taken"), id="no commit"),
        pytest.param(COMMIT, within("plan_id", to="another"), id="a commit of another plan"),
        pytest.param(COMMIT, within("set_aside", to=1), id="set aside"),
        pytest.param(COMMIT, within("left_out", to=1), id="left out"),
        pytest.param(COMMIT, within("position", "cluster_id", to="cluster-2"), id="a commit on another cluster"),
        pytest.param(COMMIT, column("position", "offset"), id="the commit is further than the plan"),
        pytest.param(COMMIT, column("position", "partition", plus=9), id="the commit has another partition"),
        pytest.param(COMMIT, within("position", "topics", to={}), id="the commit lacks a topic"),
        pytest.param(COMMIT, within("position", "topics", "more", to={}), id="the commit has another topic"),
        pytest.param(COMMIT, within("by", to={"run": {"dag_id": "a"}, "instance": None}), id="a commit of nobody"),
        pytest.param(REPORT, within("version", to=2), id="a report of a later version"),
        pytest.param(REPORT, within("plan_id", to="another"), id="a report of another plan"),
        pytest.param(REPORT, within("split", to=0), id="a report of another split"),
        pytest.param(REPORT, within("wrote", to=False), id="nothing written"),
        pytest.param(REPORT, within("output", to="elsewhere"), id="another output"),
        pytest.param(REPORT, within("topics", to={}), id="a report of nothing"),
        pytest.param(REPORT, column("partition", plus=9), id="a report of another partition"),
        pytest.param(REPORT, column("row_count"), id="a row twice"),
        pytest.param(REPORT, column("offset_count", plus=-1), id="an offset is missing"),
        pytest.param(REPORT, column("first_offset", plus=-1), id="it begins too early"),
        pytest.param(REPORT, column("last_offset"), id="it ends too late"),
        pytest.param(REPORT, within("topics", "orders", "row_count", to=[9]), id="short"),
    ],
)  # fmt: skip
def test_whatever_does_not_fit_exactly_is_read_whole(store: MemoryStore, name: str, change: Any):
    path = f"{folder_of(store)}/{name}.json"
    stored = decode(store.objects[path])
    change(stored)
    store.objects[path] = encode(stored)
    assert ordinary(store) is None


def test_fewer_rows_than_offsets_are_enough_where_the_topic_is_compacted(store: MemoryStore):
    path = f"{folder_of(store)}/{REPORT}.json"
    stored = decode(store.objects[path])
    columns = stored["topics"]["orders"]
    columns["row_count"] = columns["offset_count"] = [1] * len(columns["partition"])
    store.objects[path] = encode({**stored, "proof": "compared"})
    assert ordinary(store) is not None
    store.objects[path] = encode({**stored, "proof": "rows"})
    assert ordinary(store) is None


@pytest.mark.parametrize("name", ["3", "0-000002-abcd.begun", "0-000001-efgh.report", "2-000001-abcd.report", "notes"])
def test_whatever_else_lies_there_the_batch_is_read_whole(store: MemoryStore, name: str):
    store.create(f"{folder_of(store)}/{name}.json", b"{}")
    assert ordinary(store) is None


@pytest.mark.parametrize("name", [PLAN, COMMIT, REPORT])
def test_a_torn_object_is_named_by_the_whole_reading(store: MemoryStore, name: str):
    path = f"{folder_of(store)}/{name}.json"
    store.objects[path] = store.objects[path][:-9]
    assert ordinary(store) is None
