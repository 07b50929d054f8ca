"""What the work store keeps of a run: the frozen plan, the receipt, the attempts and their reports."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.offsets.model import OffsetRange, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.verify import PartitionRead, ReadReport, SplitAttempt
from airflow_kafka_offsets.stores.objects import WorkStore, open_work_store
from airflow_kafka_offsets.stores.reads import begin_read, latest_attempts, store_report, withdraw_late
from airflow_kafka_offsets.stores.runs import (
    find_plan,
    read_stored_plan,
    receipts,
    replace_plan,
    store_plan,
    store_receipt,
)

RUN = RunKey("dag", "scheduled__2026-11-20T10:00:00+00:00", "group.resolve")
ORDERS = TopicPartition("orders", 0)


def plan_until(end: int) -> OffsetPlan:
    return OffsetPlan(
        cluster_id="cluster",
        group_id="group",
        checkpoint_id=None,
        isolation_level="read_uncommitted",
        startup_mode="earliest-offset",
        bounded_mode="latest-offset",
        window=False,
        resolved_at_ms=0,
        topic_ids={"orders": "id"},
        partitions=(PlannedPartition(ORDERS, OffsetRange(0, end), "earliest", "latest", 0),),
        run=RUN,
    )


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return open_work_store(str(tmp_path / "store"))


def report_of(plan: OffsetPlan, attempt: int, count: int = 10) -> ReadReport:
    return ReadReport(plan.plan_id, 0, attempt, "counts", {ORDERS: PartitionRead(count, 0, count - 1)}, "out")


# Plans


def test_the_first_plan_of_a_run_stays(store: WorkStore) -> None:
    assert find_plan(store, RUN) is None
    first = store_plan(store, RUN, plan_until(10))
    assert store_plan(store, RUN, plan_until(20)) == first
    assert find_plan(store, RUN) == first
    assert read_stored_plan(store, first.name, first.plan.plan_id) == plan_until(10)


def test_a_half_written_plan_is_not_the_first(store: WorkStore) -> None:
    dead = store_plan(store, RUN, plan_until(10))
    path = Path(store.uri) / dead.name
    path.write_bytes(path.read_bytes()[:-10])

    assert find_plan(store, RUN) is None
    kept = store_plan(store, RUN, plan_until(20))
    assert (kept.plan, kept.name) == (plan_until(20), dead.name.replace("plan.1", "plan.2"))
    with pytest.raises(StoreUnavailable, match="never written completely"):
        read_stored_plan(store, dead.name, dead.plan.plan_id)


def test_each_run_and_mapped_instance_has_a_plan_of_its_own(store: WorkStore) -> None:
    runs = [RUN, replace(RUN, map_index=0), replace(RUN, run_id="manual"), replace(RUN, task_id="other")]
    stored = [store_plan(store, run, plan_until(end)) for end, run in enumerate(runs, start=1)]
    assert [s.plan for s in stored] == [plan_until(end) for end in range(1, 5)]
    assert len({s.name for s in stored}) == 4


def test_names_that_could_leave_their_folder_do_not(store: WorkStore) -> None:
    names = {store_plan(store, RunKey(dag, run, "t"), plan_until(1)).name for dag in ("..", "a/b") for run in ("/", "")}
    assert all(name.count("/") == 5 and ".." not in name for name in names)
    assert len(names) == 4


def test_a_plan_is_read_by_its_id(store: WorkStore) -> None:
    stored = store_plan(store, RUN, plan_until(10))
    with pytest.raises(StoreUnavailable, match=f"holds plan {stored.plan.plan_id}"):
        read_stored_plan(store, stored.name, "another")
    with pytest.raises(StoreUnavailable, match="is not there"):
        read_stored_plan(store, "plans/nowhere/plan.1.json", stored.plan.plan_id)


# Receipts


def test_a_receipt_is_written_once(store: WorkStore) -> None:
    assert receipts(store, RUN) == set()
    for _ in range(2):
        store_receipt(store, RUN, plan_until(10))
    store_receipt(store, RUN, plan_until(20))
    assert receipts(store, RUN) == {plan_until(10).plan_id, plan_until(20).plan_id}
    assert len(list(Path(store.uri).rglob("receipt.*.json"))) == 2
    assert find_plan(store, RUN) is None  # a receipt beside it is no plan


# Attempts


def test_an_attempt_has_a_report_once_it_reported(store: WorkStore) -> None:
    plan = plan_until(10)
    assert latest_attempts(store, plan, [0]) == {}
    assert begin_read(store, plan, 0, None) == 1
    assert latest_attempts(store, plan, [0]) == {0: SplitAttempt(1, None)}
    store_report(store, report_of(plan, 1))
    assert latest_attempts(store, plan, [0, 1]) == {0: SplitAttempt(1, report_of(plan, 1))}


def test_only_the_newest_attempt_counts(store: WorkStore) -> None:
    plan = plan_until(10)
    for attempt in range(1, 11):
        assert begin_read(store, plan, 0, "out") == attempt
        if attempt < 10:
            store_report(store, report_of(plan, attempt))
    assert latest_attempts(store, plan, [0]) == {0: SplitAttempt(10, None)}


def test_an_attempt_reports_once(store: WorkStore) -> None:
    plan = plan_until(10)
    begin_read(store, plan, 0, "out")
    store_report(store, report_of(plan, 1))
    with pytest.raises(StoreUnavailable, match="reported already"):
        store_report(store, report_of(plan, 1, count=9))
    assert latest_attempts(store, plan, [0]) == {0: SplitAttempt(1, report_of(plan, 1))}


def test_a_half_written_begun_is_an_attempt(store: WorkStore) -> None:
    plan = plan_until(10)
    begin_read(store, plan, 0, "out")
    store_report(store, report_of(plan, 1))
    begun = next(Path(store.uri).rglob("begun.1.json"))
    begun.with_name("begun.2.json").write_bytes(begun.read_bytes()[:20])
    assert latest_attempts(store, plan, [0]) == {0: SplitAttempt(2, None)}
    assert begin_read(store, plan, 0, "out") == 3


def test_a_half_written_report_is_none(store: WorkStore) -> None:
    plan = plan_until(10)
    begin_read(store, plan, 0, "out")
    store_report(store, report_of(plan, 1))
    report = next(Path(store.uri).rglob("report.1.json"))
    report.write_bytes(report.read_bytes()[:-1])
    assert latest_attempts(store, plan, [0]) == {0: SplitAttempt(1, None)}


def test_what_comes_after_another_plan_of_the_run_took_its_place_is_late(tmp_path: Path) -> None:
    store = WorkStore(tmp_path, str(tmp_path))
    old, new = replace(plan_until(5), run=RUN), replace(plan_until(9), run=RUN)
    store_plan(store, RUN, old)
    attempt = begin_read(store, old, 0, None)
    assert withdraw_late(store, old, 0, attempt) is None
    successor = replace(new, replaces=old.plan_id, starts_all_splits=True)
    replace_plan(store, RUN, successor)
    begin_read(store, successor, 0, None)
    assert withdraw_late(store, old, 0, attempt) == f"plan {successor.plan_id}"
    assert latest_attempts(store, successor, [0]) == {0: SplitAttempt(2, None)}
