"""A pipeline's log in the work store: found at the same cost however long it is, and written by one at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.log.entries import BatchLog, Planned, Taken
from airflow_kafka_offsets.log.pipeline_log import (
    BatchOfRun,
    PipelineLog,
    newer_plan,
    pipeline_ids,
    read_batch,
    read_plan,
)
from airflow_kafka_offsets.plan.plan import HIGHEST
from airflow_kafka_offsets.plan.window_claims import OffsetClaim, TimeClaim
from airflow_kafka_offsets.stores.objects import encode
from airflow_kafka_offsets.stores.store import Store
from tests.builders import NOW, PIPELINE, planned
from tests.model.store import MemoryStore
from tests.stores.builders import (
    DAY,
    OUTPUT,
    actor,
    as_it_is_now,
    begin,
    begin_window,
    commit,
    key_of,
    plan_of,
    read,
    run,
    take,
    window_plan,
)
from tests.stores.watched import Counting, Process, interleavings

ROOT = "pipelines/g%2Fbilling%2Fresolve"
DAY_1, DAY_2 = TimeClaim(NOW - 2 * DAY, NOW - DAY), TimeClaim(NOW - DAY, NOW)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> PipelineLog:
    return PipelineLog(store, PIPELINE)


def folder_of(number: int) -> str:
    return f"{ROOT}/batches/{number // 100:08}/{number:010}"


def newer(store: Store, plan_object: str) -> str | None:
    return newer_plan(store, plan_object, store.list(plan_object.rpartition("/")[0]))


# ── where things are ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_knows_structured_streamings_checkpoint_folder_can_say_what_each_run_did(
    store: MemoryStore, log: PipelineLog
) -> None:
    for number in (99, 100):
        batch = take(begin(log, number), actor("b"))
        read(batch)
        log.bind(run(number), commit(batch))
    log.bind(run("idle"), None)
    begin_window(log, DAY_1)
    name = DAY_1.name
    assert sorted(store.objects) == [
        f"{ROOT}/batches/00000000/0000000099/0-000001-abcd.begun.json",
        f"{ROOT}/batches/00000000/0000000099/0-000001-abcd.report.json",
        f"{ROOT}/batches/00000000/0000000099/1.json",
        f"{ROOT}/batches/00000000/0000000099/2.json",
        f"{ROOT}/batches/00000000/0000000099/3.json",
        f"{ROOT}/batches/00000001/0000000100/0-000001-abcd.begun.json",
        f"{ROOT}/batches/00000001/0000000100/0-000001-abcd.report.json",
        f"{ROOT}/batches/00000001/0000000100/1.json",
        f"{ROOT}/batches/00000001/0000000100/2.json",
        f"{ROOT}/batches/00000001/0000000100/3.json",
        f"{ROOT}/runs/billing/run-100/resolve/-1.json",
        f"{ROOT}/runs/billing/run-99/resolve/-1.json",
        f"{ROOT}/runs/billing/run-idle/resolve/-1.json",
        f"{ROOT}/window-claims/2026-11/{name}.1",
        f"{ROOT}/windows/{name}/1.json",
    ]
    entries = [json.loads(store.objects[f"{folder_of(99)}/{number}.json"])["entry"] for number in (1, 2, 3)]
    assert entries == ["plan", "taken", "commit"]


def test_pipelines_are_found_by_their_names(store: MemoryStore) -> None:
    for name in ("g/dag/resolve", "über", "..", "x" * 300):
        begin(PipelineLog(store, name), 1, pipeline=name)
    begin_window(PipelineLog(store, "y" * 300), DAY_1, pipeline="y" * 300)
    PipelineLog(store, "z" * 300).bind(run("one"), None)
    store.create("pipelines/readme.txt", b"x")
    found = ["..", "g/dag/resolve", "x" * 300, "y" * 300, "über"]
    assert sorted(pipeline_ids(store)) == found, "one too long for a folder, and without a plan, is absent"


def test_two_pipelines_share_nothing(store: MemoryStore, log: PipelineLog) -> None:
    other = PipelineLog(store, "other")
    begin(log, 1)
    assert other.newest() is None
    assert other.begin(1, Planned(plan_of(1)))


# ── the newest ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_without_batches_has_no_newest(log: PipelineLog) -> None:
    assert log.newest() is None
    assert log.newest_commit() is None
    assert list(log.newest_first()) == []


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3], [3, 7], [99, 100], [99, 100, 101, 250], [5, 10_000], [HIGHEST]])
def test_the_newest_is_the_one_with_the_highest_number_whatever_is_missing_below(
    log: PipelineLog, numbers: list[int]
) -> None:
    """After a clean, or a lost store, a log begins anywhere and has gaps."""
    for number in numbers:
        begin(log, number)
    newest = log.newest()
    assert newest is not None
    assert (newest.log.plan, newest.folder) == (plan_of(numbers[-1]), folder_of(numbers[-1]))
    assert [batch.log.plan.batch.number for batch in log.newest_first()] == numbers[::-1]
    assert list(log.folders()) == [folder_of(number) for number in numbers]


def test_what_is_no_batch_is_passed_over(store: MemoryStore, log: PipelineLog) -> None:
    begin(log, 7)
    for name in ("notes.txt", "99999999", "99999999/0000000009/x", "00000000/0000000008", "00000000/9/1.json",
                 "lost+found/0000000009/1.json", "00000000/0000000009x/1.json",
                 "00000000/.0000000009/1.json"):  # fmt: skip
        store.create(f"{ROOT}/batches/{name}", b"x")
    newest = log.newest()
    assert newest is not None
    assert newest.folder == folder_of(7)


def test_a_folder_that_has_lost_its_log_is_no_batch(store: MemoryStore, log: PipelineLog) -> None:
    """``clean`` removes reads first; a driver of long ago may write one more."""
    commit(begin(log, 7))
    store.create(f"{folder_of(9)}/0-000001-abcd.begun.json", b"x")
    newest = log.newest()
    assert newest is not None
    assert newest.folder == folder_of(7)


@pytest.fixture(params=[10, 10_000], ids=["of ten", "of ten thousand"])
def long_log(request: pytest.FixtureRequest, store: MemoryStore) -> tuple[Counting, PipelineLog, int]:
    """A store that counts, and its log; of the older batches only their names are ever needed."""
    for number in range(1, request.param - 1):
        store.create(f"{folder_of(number)}/1.json", b"of long ago")
    counting = Counting(store)
    log = PipelineLog(counting, PIPELINE)
    commit(begin(log, request.param - 1))
    begin(log, request.param)
    counting.asked.clear()
    return counting, log, request.param


def test_the_newest_batch_is_found_by_two_listings(long_log: tuple[Counting, PipelineLog, int]) -> None:
    counting, log, count = long_log
    newest = log.newest()
    assert newest is not None
    assert newest.folder == folder_of(count)
    assert counting.asked == [
        ("list", f"{ROOT}/batches"),
        ("list", f"{ROOT}/batches/{count // 100:08}"),
        ("list", folder_of(count)),
        ("get", f"{folder_of(count)}/1.json"),
    ]
    assert all(len(counting.store.list(folder)) < 1_000 for folder in counting.of("list")), "of one page each"


def test_the_newest_commit_is_found_without_a_search(long_log: tuple[Counting, PipelineLog, int]) -> None:
    counting, log, count = long_log
    newest = log.newest_commit()
    assert newest is not None
    assert newest.folder == folder_of(count - 1)
    assert len(counting.asked) == 4 + 3


def test_the_next_batch_is_begun_by_one_question(long_log: tuple[Counting, PipelineLog, int]) -> None:
    counting, log, count = long_log
    assert log.begin(count + 1, Planned(plan_of(count + 1)))
    assert counting.asked == [("create", f"{folder_of(count + 1)}/1.json")]


# ── the newest commit ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_commit_is_the_newest_batch_or_the_one_that_it_goes_on_from(log: PipelineLog) -> None:
    first = begin(log, 1)
    assert log.newest_commit() is None, "the first batch is not committed yet"
    done = commit(first)
    assert log.newest_commit() == done
    second = begin(log, 2)
    assert log.newest_commit() == done
    committed = commit(take(second, actor("b")))
    assert log.newest_commit() == committed
    again = take(committed, actor("c"))
    assert log.newest_commit() == again, "one that is done again is committed all the same"


def test_a_batch_that_was_passed_by_is_no_commit(log: PipelineLog) -> None:
    """The group was adopted: batch 12 goes on from a batch that this store never had."""
    commit(begin(log, 7))
    begin(log, 8)
    begin(log, 12)  # after batch 11, which only the group knew
    assert log.newest_commit() is None
    done = commit(begin(log, 13))
    assert log.newest_commit() == done


# ── one at a time ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_number_is_begun_once(log: PipelineLog) -> None:
    assert log.begin(1, Planned(plan_of(1)))
    assert log.begin(1, Planned(plan_of(1, run=run("other")))) is None
    newest = log.newest()
    assert newest is not None
    assert newest.log.plan.by.run == run(1)


@pytest.mark.parametrize("number", [0, -1, HIGHEST + 1])
def test_what_is_no_number_of_a_batch_is_not_begun(log: PipelineLog, number: int) -> None:
    with pytest.raises(ValueError, match="is not the number of a batch"):
        log.begin(number, Planned(plan_of(1)))


def test_an_entry_is_appended_to_the_log_as_it_was_seen_and_to_no_other(log: PipelineLog) -> None:
    """A commit that comes after somebody's plan has seen another log: it must look again, not land behind it."""
    seen = begin(log, 1)
    anew = seen.append(Planned(plan_of(1, run=run("b"), reason="re_plan")))
    assert anew is not None
    assert seen.append(Taken(actor("c"), NOW)) is None
    assert as_it_is_now(seen) == anew == log.newest()
    again = anew.append(Taken(actor("c"), NOW))
    assert again is not None
    assert again == log.newest()
    assert (again.plan_object, again.log.next_number) == (f"{folder_of(1)}/2.json", 4)


def test_a_batch_is_read_as_it_was_appended(log: PipelineLog) -> None:
    batch = begin(log, 1)
    for by in (actor("b"), actor("c")):
        batch = take(batch, by, s0=2, s3=7)
    batch = take(commit(batch), actor("d"))
    assert log.batch(1) == batch
    assert log.read(batch.name) == batch
    assert log.read("batches/00000000/0000000002") is None
    assert log.batch(2) is None
    assert batch.name == "batches/00000000/0000000001"


def test_of_two_that_begin_or_append_in_any_order_exactly_one_does_and_both_know() -> None:
    """Every order of their questions to the store."""
    played = 0

    def start() -> list[Process]:
        store = MemoryStore()
        log = PipelineLog(store, PIPELINE)
        seen = begin(log, 1)

        def work(name: str):
            def append(mine: Store) -> tuple[bool, bool]:
                begun = PipelineLog(mine, PIPELINE).begin(2, Planned(plan_of(2, run=run(name))))
                taken = replace(seen, store=mine).append(Taken(actor(name), NOW))
                return begun is not None, taken is not None

            return append

        return [Process(store, work("a")), Process(store, work("b"))]

    for processes in interleavings(start):
        played += 1
        begun, taken = zip(*(process.outcome for process in processes), strict=True)
        assert sorted(begun) == sorted(taken) == [False, True]
    assert played == 20  # two questions each, and the end: 6 over 3


# ── what is damaged ───────────────────────────────────────────────────────────────────────────────────────────────────


def damage(store: MemoryStore, name: str, data: bytes | None) -> None:
    objects = {other: kept for other, kept in store.objects.items() if other != name}
    store.replace(objects if data is None else {**objects, name: data})


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_an_entry_that_is_missing_in_the_middle_is_named(store: MemoryStore, log: PipelineLog, missing: int) -> None:
    """Never a shorter log: without its commit the batch would be done, and committed, a second time."""
    commit(take(take(begin(log, 1), actor("b")), actor("c")))
    damage(store, f"{folder_of(1)}/{missing}.json", None)
    with pytest.raises(StoreDamaged, match=rf"0000000001/{missing}\.json.* is not there") as refused:
        log.newest()
    assert "lifecycle rule" in refused.value.remedy


def test_what_lies_before_the_current_plan_is_not_needed(store: MemoryStore, log: PipelineLog) -> None:
    anew = take(begin(log, 1), actor("b")).append(Planned(plan_of(1, reason="re_plan")))
    for number in (1, 2):
        damage(store, f"{folder_of(1)}/{number}.json", None)
    assert log.newest() == anew


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(encode({"version": 1, "entry": "plan"})[:-3], id="torn"),
        pytest.param(encode({"version": 1, "entry": "plan"}), id="no plan in it"),
        pytest.param(encode({"version": 2, "entry": "plan"}), id="a later version"),
        pytest.param(encode({"version": 1, "entry": "lease"}), id="a kind that is not known"),
    ],
)
def test_a_damaged_entry_is_named_and_never_taken_for_none(store: MemoryStore, log: PipelineLog, data: bytes) -> None:
    batch = commit(begin(log, 1))
    damage(store, f"{batch.folder}/2.json", data)
    with pytest.raises(StoreDamaged, match=r"0000000001/2\.json"):
        log.newest()


# ── plans by their object ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_driver_reads_the_plan_that_it_was_given_and_no_other_entry(store: MemoryStore, log: PipelineLog) -> None:
    batch = take(begin(log, 1), actor("b"))
    found = read_plan(store, batch.plan_object)
    assert found is not None
    assert found.plan == plan_of(1)
    assert read_plan(store, f"{batch.folder}/9.json") is None
    with pytest.raises(StoreDamaged, match="it is no plan"):
        read_plan(store, f"{batch.folder}/2.json")


def test_a_plan_is_the_current_one_until_another_takes_its_place(store: MemoryStore, log: PipelineLog) -> None:
    first = begin(log, 1)
    batch = commit(take(first, actor("b")))
    assert newer(store, first.plan_object) is None, "neither a taken nor a commit is a plan"
    anew = batch.append(Planned(plan_of(1, [planned(0, 5, 10)])))
    assert anew is not None
    later = take(anew, actor("c"))
    assert newer(store, first.plan_object) == anew.log.plan.plan_id
    assert newer(store, later.plan_object) is None
    last = later.append(Planned(plan_of(1, [planned(0, 7, 10)])))
    assert last is not None
    assert newer(store, first.plan_object) == last.log.plan.plan_id, "the last one is named"


def test_entries_are_in_the_order_of_their_numbers_and_not_of_their_names(store: MemoryStore, log: PipelineLog) -> None:
    batch = begin(log, 1)
    for number in range(2, 12):
        batch = take(batch, actor(number))
    assert batch.log.next_number == 12
    assert read_batch(store, batch.folder) == batch
    assert batch.log.holder == actor(11)
    anew = batch.append(Planned(plan_of(1, [planned(0, 5, 10)])))
    assert anew is not None
    assert newer(store, f"{batch.folder}/1.json") == anew.log.plan.plan_id


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_window_is_a_batch_by_its_name(log: PipelineLog) -> None:
    assert log.window(DAY_1.name) is None
    begun = begin_window(log, DAY_1)
    assert log.begin_window(DAY_1.name, 1, Planned(window_plan(DAY_1, run=run("other")))) is None
    done = commit(begun)
    assert log.window(DAY_1.name) == done
    assert done.log == BatchLog(begun.log.planned, 1, done.log.later)
    assert (log.windows(), log.newest()) == ([DAY_1.name], None), "and no batch of the log"
    assert log.read(done.name) == done


def test_a_window_is_planned_anew_after_its_commit(log: PipelineLog) -> None:
    anew = commit(begin_window(log, DAY_1)).append(Planned(window_plan(DAY_1, reason="re_plan")))
    assert anew is not None
    assert anew.log.committed is None
    assert log.window(DAY_1.name) == anew


def test_a_claim_is_in_each_month_that_the_window_lies_in_and_goes_from_all_of_them(log: PipelineLog) -> None:
    quarter = TimeClaim(NOW, NOW + 60 * DAY)
    by_offsets = OffsetClaim((("orders", None, 0, 0, 5),))
    for claim in (quarter, DAY_1, by_offsets, quarter):
        log.claim(claim.name, claim.places, 1)
    assert log.windows_in("2026-11") == sorted([DAY_1.name, quarter.name])
    assert log.windows_in("2026-12") == log.windows_in("2027-01") == [quarter.name]
    assert log.windows_in("offsets") == [by_offsets.name]
    assert log.windows_in("2027-02") == []
    log.claim(quarter.name, quarter.places, 4)
    for name in (*log.claims_before(quarter.name, 4), *log.claims_before(by_offsets.name, 4)):
        log.store.delete(name)
    assert log.windows_in("offsets") == []
    assert log.windows() == sorted([DAY_1.name, quarter.name]), "who has planned it anew meanwhile claims it"
    for name in log.claims_before(quarter.name, 5):
        log.store.delete(name)
    assert [log.windows_in(place) for place in ("2026-11", "2026-12", "2027-01")] == [[DAY_1.name], [], []]


def test_windows_are_listed_in_the_order_of_time(log: PipelineLog) -> None:
    for claim in (DAY_2, DAY_1):
        begin_window(log, claim)
    assert log.windows() == [DAY_1.name, DAY_2.name]


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_which_batch_a_run_took_is_written_once_and_kept(log: PipelineLog) -> None:
    first, second = begin(log, 1), begin(log, 2)
    assert log.batch_of_run(run("a")) is None
    log.bind(run("a"), first)
    log.bind(run("a"), second)
    log.bind(run("a"), None)
    assert log.batch_of_run(run("a")) == BatchOfRun("batches/00000000/0000000001", key_of(1), OUTPUT)


def test_that_there_was_nothing_to_do_is_written_once_too(log: PipelineLog) -> None:
    log.bind(run("a"), None)
    log.bind(run("a"), begin(log, 1))
    assert log.batch_of_run(run("a")) == BatchOfRun(None)


def test_a_run_may_take_a_window(log: PipelineLog) -> None:
    window = begin_window(log, DAY_1)
    log.bind(run("a"), window)
    found = log.batch_of_run(run("a"))
    assert found is not None
    assert found.folder == f"windows/{DAY_1.name}"
    assert log.read(found.folder) == window


def test_each_run_task_and_mapped_instance_has_a_record_of_its_own(log: PipelineLog) -> None:
    batch = begin(log, 1)
    runs = [
        run("a"),
        run("b"),
        run("a", 0),
        run("a", 1),
        replace(run("a"), dag_id="other"),
        replace(run("a"), task_id="other"),
        replace(run("a"), dag_id="billing/run-a", run_id="resolve"),
        replace(run("a"), dag_id="..", run_id="a/b"),
        replace(run("a"), dag_id="", run_id=""),
    ]
    for one in runs:
        assert log.batch_of_run(one) is None
        log.bind(one, batch)
        assert log.batch_of_run(one) is not None


def test_a_damaged_record_of_a_run_is_named(store: MemoryStore, log: PipelineLog) -> None:
    """Were it taken for none, the run would plan the next batch instead of its own."""
    log.bind(run("a"), begin(log, 1))
    name = f"{ROOT}/runs/billing/run-a/resolve/-1.json"
    damage(store, name, store.objects[name][:-1])
    with pytest.raises(StoreDamaged, match=r"runs/billing/run-a/resolve/-1\.json"):
        log.batch_of_run(run("a"))
