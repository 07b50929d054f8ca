"""A batch is ordinary where its commit fits the one before it and the digest of the reads; else it is read whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.audit import OrdinaryBatch, audit_batches
from airflow_kafka_offsets.log.entries import Planned, Taken
from airflow_kafka_offsets.log.ordinary_batch import ordinary_batches
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import begin_attempt, store_report
from airflow_kafka_offsets.log.verify_reads import PartitionRead, Proof, ReadReport
from airflow_kafka_offsets.log.whole_log import whole_records
from airflow_kafka_offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.plan.position import Position, position_after
from airflow_kafka_offsets.stores.objects import decode, encode
from tests.builders import PIPELINE, planned, position, tp
from tests.model.store import MemoryStore
from tests.stores.builders import actor, commit, plan_of, report_of

Stored = dict[str, Any]
Rows = Callable[[list[PlannedPartition]], list[PlannedPartition]]
Report = Callable[[ReadReport], ReadReport]
BEFORE = position({0: 10, 1: 20, 2: 30})


def as_it_is(value: Any) -> Any:
    return value


def log_with(rows: Rows = as_it_is, report: Report = as_it_is, number: int = 1, **fields: Any) -> PipelineLog:
    """Batch 1, and batch 2 after it: three partitions by two splits. Whoever commits it looks at nothing.

    :param rows: makes other ones of batch 2's; :param report: makes another one of each of its reports.
    :param number: of its attempts; :param fields: of its plan.
    """
    log = PipelineLog(MemoryStore(), PIPELINE)
    first = add(log, 1, BEFORE)
    add(log, 2, position_after(first.log.plan, BEFORE), rows, report, number, **fields)
    return log


def add(
    log: PipelineLog,
    which: int,
    before: Position,
    rows: Rows = as_it_is,
    report: Report = as_it_is,
    number: int = 1,
    **fields: Any,
) -> StoredBatch:
    planned_rows = rows([planned(tp, at.offset, at.offset + 10) for tp, at in before.offsets.items()])
    fields = {"splits": 2, "topic_ids": before.topic_ids, **fields}
    begun = log.begin(which, Planned(plan_of(which, planned_rows, **fields), before))
    assert begun is not None
    for split in begun.log.plan.splits_with_rows():
        made = report(report_of(begun.log.plan, split, number))
        begin_attempt(begun.store, begun.folder, split, number, "abcd", {})
        store_report(begun.store, begun.folder, "abcd", made)
    return commit(begun)


def store_of(log: PipelineLog) -> MemoryStore:
    assert isinstance(log.store, MemoryStore)
    return log.store


def ordinary(log: PipelineLog) -> OrdinaryBatch | None:
    """Batch 2, if it is one."""
    folders = {log.folder_of(number): log.store.list(log.folder_of(number)) for number in (1, 2)}
    found = ordinary_batches(log.store, folders)
    assert log.folder_of(1) not in found, "it goes on from what is not known"
    return found.get(log.folder_of(2))


def test_a_batch_without_a_fault_is_ordinary_and_is_told_as_the_whole_reading_tells_it():
    log = log_with()
    *_, last = audit_batches(whole_records(log, None, None))
    found = ordinary(log)
    assert found is not None
    assert found.audited == last
    assert (found.batch.number, found.audited.read, found.audited.findings) == (2, 30, ())
    assert found.position == position({0: 30, 1: 40, 2: 50})


def test_a_batch_is_ordinary_also_where_a_partition_has_nothing_new():
    found = ordinary(log_with(lambda rows: rows[1:]))
    assert found is not None
    assert found.audited.read == 20


# ── what a plan may say ───────────────────────────────────────────────────────────────────────────────────────────────


def first(**fields: Any) -> Rows:
    """The first partition is planned otherwise; the reports are as the plan."""
    return lambda rows: [replace(rows[0], **fields), *rows[1:]]


def moved(start: int, end: int = 0) -> Rows:
    """The first partition starts, or ends, at other offsets; nobody says why."""

    def move(rows: list[PlannedPartition]) -> list[PlannedPartition]:
        p = rows[0]
        return [planned(p.topic_partition, p.start_offset + start, p.end_offset + end), *rows[1:]]

    return move


@pytest.mark.parametrize(
    "made",
    [
        pytest.param({"rows": moved(1)}, id="it starts later"),
        pytest.param({"rows": moved(-1)}, id="it starts earlier"),
        pytest.param({"rows": lambda rows: [*moved(1)(rows)[:1], *moved(-1)(rows[1:])]}, id="both"),
        pytest.param({"rows": first(lost=1)}, id="lost"),
        pytest.param({"rows": first(skipped=1)}, id="skipped"),
        pytest.param({"rows": lambda rows: [*rows, planned(9, 0, 5)]}, id="a new partition"),
        pytest.param(
            {"rows": lambda rows: [planned(TopicPartition("more", 0), 0, 5), *rows]}, id="a new topic"
        ),
        pytest.param({"restarted": True, "restarts": ("again",)}, id="a restart"),
        pytest.param({"reason": "reset to earliest"}, id="a person's plan"),
        pytest.param({"cluster_id": "cluster-2"}, id="another cluster"),
        pytest.param({"topic_ids": {"orders": "another"}}, id="another topic of the same name"),
    ],
)  # fmt: skip
def test_whatever_is_planned_otherwise_is_read_whole_though_its_reports_are_as_the_plan(made: dict[str, Any]):
    assert ordinary(log_with(**made)) is None


# ── what reports may say, and a commit that looks at nothing ──────────────────────────────────────────────────────────


def counted(**by: int) -> Report:
    """The first partition of each report has other counts."""

    def change(report: ReadReport) -> ReadReport:
        (where, read), *rest = report.partitions.items()
        now = replace(read, **{name: getattr(read, name) + more for name, more in by.items()})
        return replace(report, partitions=dict([(where, now), *rest]))

    return change


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(counted(row_count=1), id="a row twice"),
        pytest.param(counted(row_count=-1, offset_count=-1), id="a row is missing"),
        pytest.param(counted(offset_count=-1), id="a row in the place of another one"),
        pytest.param(counted(first_offset=-1), id="it begins too early"),
        pytest.param(counted(last_offset=1), id="it ends too late"),
        pytest.param(lambda report: replace(report, partitions={}), id="nothing"),
        pytest.param(lambda r: replace(r, partitions={**r.partitions, tp(9): PartitionRead(1, 1, 0, 0)}), id="more"),
        pytest.param(lambda report: replace(report, plan_id="another"), id="another plan"),
        pytest.param(lambda report: replace(report, output="elsewhere"), id="another output"),
        pytest.param(lambda report: replace(report, wrote=False), id="nothing written"),
    ],
)  # fmt: skip
def test_whoever_commits_what_was_not_read_as_planned_is_found(report: Report):
    assert ordinary(log_with(report=report)) is None


@pytest.mark.parametrize("proof", ["scan", "merged", "compared", "rows"])
def test_where_each_offset_has_its_row_any_proof_is_enough(proof: Proof):
    assert ordinary(log_with(report=lambda report: replace(report, proof=proof))) is not None


def test_a_job_may_name_an_output_where_the_plan_names_none():
    assert ordinary(log_with(report=lambda report: replace(report, output="/lake"), output=None)) is not None


# ── what a commit may say ─────────────────────────────────────────────────────────────────────────────────────────────


def within(*path: str, to: Any) -> Callable[[Stored], None]:
    """A field of an object has another value."""

    def change(stored: Stored) -> None:
        *above, last = path
        for name in above:
            stored = stored[name]
        stored[last] = to

    return change


def column(name: str, plus: int = 1) -> Callable[[Stored], None]:
    """The first value of a column of the position is another one."""

    def change(stored: Stored) -> None:
        stored["position"]["offsets"]["orders"][name][0] += plus

    return change


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(within("version", to=2), id="a later version"),
        pytest.param(within("entry", to="taken"), id="no commit"),
        pytest.param(within("summary", to=None), id="no summary: an earlier version"),
        pytest.param(within("summary", "number", to=7), id="another number"),
        pytest.param(within("position", to=None), id="no position"),
        pytest.param(within("position", "cluster_id", to="cluster-2"), id="another cluster"),
        pytest.param(within("position", "restarts", to=["again"]), id="a restart"),
        pytest.param(within("position", "offsets", to={}), id="no topic"),
        pytest.param(within("position", "offsets", "more", to={"partition": []}), id="another topic"),
        pytest.param(within("position", "topic_ids", "orders", to="another"), id="another topic id"),
        pytest.param(column("partition", plus=9), id="another partition"),
        pytest.param(column("offset"), id="it ends later"),
        pytest.param(column("offset", plus=-1), id="it ends earlier"),
        pytest.param(column("offset", plus=-11), id="it goes back"),
    ],
)  # fmt: skip
def test_a_commit_that_does_not_fit_the_other_one_is_read_whole(number: int, change: Any):
    log = log_with()
    alter(log, number, change)
    assert ordinary(log) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(within("plan_id", to="another"), id="of another plan"),
        pytest.param(within("reads", to="another"), id="of other reads"),
        pytest.param(within("reads", to=None), id="of no reads: nobody has looked"),
        pytest.param(within("set_aside", to=1), id="set aside"),
        pytest.param(within("left_out", to=1), id="left out"),
        pytest.param(within("by", to={"run": {"dag_id": "a"}, "instance": None}), id="of nobody"),
        pytest.param(within("summary", "plan", to=2), id="planned anew"),
        pytest.param(within("summary", "records", to=29), id="of fewer records"),
        pytest.param(within("summary", "lost", to=1), id="lost"),
        pytest.param(within("summary", "skipped", to=1), id="skipped"),
        pytest.param(within("summary", "withdrawn", to=True), id="withdrawn"),
        pytest.param(within("summary", "reason", to="reset"), id="a person's"),
        pytest.param(within("summary", "output", to="elsewhere"), id="of another output"),
    ],
)  # fmt: skip
def test_a_commit_that_says_anything_else_is_read_whole(change: Any):
    log = log_with()
    alter(log, 2, change)
    assert ordinary(log) is None


def alter(log: PipelineLog, number: int, change: Callable[[Stored], None]) -> None:
    store, name = store_of(log), f"{log.folder_of(number)}/2.json"
    stored = decode(store.objects[name])
    change(stored)
    store.objects[name] = encode(stored)


# ── what else lies there ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["3", "0-000002-abcd.begun", "0-000001-efgh.report", "2-000001-abcd.report", "notes"])
@pytest.mark.parametrize("number", [1, 2])
def test_whatever_else_lies_there_the_batch_and_the_one_after_it_are_read_whole(number: int, name: str):
    log = log_with()
    log.store.create(f"{log.folder_of(number)}/{name}.json", b"{}")
    assert ordinary(log) is None


@pytest.mark.parametrize("name", ["1-000001-abcd.report", "1-000001-abcd.begun", "1"])
def test_a_batch_of_which_something_is_gone_is_read_whole(name: str):
    log = log_with()
    log.store.delete(f"{log.folder_of(2)}/{name}.json")
    assert ordinary(log) is None


def test_an_attempt_that_was_removed_and_another_number_in_its_place_are_found():
    log = log_with()
    store, folder = store_of(log), log.folder_of(2)
    for kind in ("begun", "report"):
        data = store.objects[f"{folder}/1-000001-abcd.{kind}.json"]
        log.store.delete(f"{folder}/1-000001-abcd.{kind}.json")
        log.store.create(f"{folder}/1-000002-abcd.{kind}.json", data)
    assert ordinary(log) is None


def test_a_batch_that_was_taken_before_its_commit_is_read_whole():
    log = PipelineLog(MemoryStore(), PIPELINE)
    done = add(log, 1, BEFORE)
    begun = log.begin(2, Planned(plan_of(2, [planned(0, 20, 30)]), done.log.position))
    assert begun is not None
    taken = begun.append(Taken(actor("b"), 5))
    assert taken is not None
    commit(taken)
    assert ordinary(log) is None


@pytest.mark.parametrize("number", [1, 2])
def test_a_torn_commit_is_named_by_the_whole_reading(number: int):
    log = log_with()
    name = f"{log.folder_of(number)}/2.json"
    store_of(log).objects[name] = store_of(log).objects[name][:-9]
    assert ordinary(log) is None
