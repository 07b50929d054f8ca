"""What ``clean`` takes from the work store, what it leaves, what it costs, and what a crash in the middle leaves."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import PlanReplaced
from airflow_kafka_offsets.log.entries import Planned, Taken
from airflow_kafka_offsets.log.output_claims import claim_output
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import begin as begin_as_driver
from airflow_kafka_offsets.log.read_reports import begin_attempt, has_begun
from airflow_kafka_offsets.plan.planned_anew import emptied
from airflow_kafka_offsets.plan.window_claims import Claim, OffsetClaim, TimeClaim
from airflow_kafka_offsets.stores.objects import encode
from airflow_kafka_offsets.stores.store import Store
from tests.builders import NOW, PIPELINE
from tests.engine import KEPT_COMMITS, Removal, find_old, remove
from tests.model.store import MemoryStore
from tests.stores.builders import (
    DAY,
    OUTPUT,
    actor,
    begin,
    begin_window,
    commit,
    plan_of,
    read,
    run,
    take,
    window_plan,
)
from tests.stores.watched import Counting, Crash, Dying, Watched

BEFORE = NOW - 90 * DAY
OLD, YOUNG = NOW - 100 * DAY, NOW - DAY


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> PipelineLog:
    return PipelineLog(store, PIPELINE)


def done(log: PipelineLog, number: int, at_ms: int) -> StoredBatch:
    """A batch that was planned, read and committed then."""
    batch = begin(log, number, at_ms)
    read(batch)
    batch = commit(batch, at_ms)
    log.bind(run(number), batch)
    return batch


def clean(store: Store, before_ms: int = BEFORE) -> list[str]:
    """The names of the batches and windows that went, in their order."""
    gone = []
    for removal in find_old(store, before_ms):
        remove(removal)
        gone.append(short(removal))
    return gone


def short(removal: Removal) -> str:
    return removal.folder.rpartition("/")[2]


def numbers(log: PipelineLog) -> list[int]:
    return [int(folder.rpartition("/")[2]) for folder in log.folders()]


# ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_old_batches_go_from_the_oldest_on_and_the_last_two_commits_stay_however_old(
    store: MemoryStore, log: PipelineLog
) -> None:
    assert KEPT_COMMITS == 2
    for number in range(1, 6):
        done(log, number, OLD)
    assert clean(store) == ["0000000001", "0000000002", "0000000003"]
    assert numbers(log) == [4, 5]
    assert clean(store) == [], "and again: there is nothing more"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_log_of_two_batches_or_fewer_stays(store: MemoryStore, log: PipelineLog, count: int) -> None:
    for number in range(1, count + 1):
        done(log, number, OLD)
    assert clean(store) == []


def test_a_clean_that_slept_while_another_one_cleaned_takes_nothing_newer_than_what_it_saw(
    store: MemoryStore, log: PipelineLog
) -> None:
    """The batches that it was to stop at are gone: to go on to the newest would lose the position."""
    for number in range(1, 5):
        done(log, number, OLD)
    asleep = [True]

    def others_go_on(verb: str, name: str) -> None:
        if asleep and verb == "get" and "/0000000003/" in name:  # the second commit from the top, which it stops at
            asleep.clear()
            for number in (5, 6):
                done(log, number, OLD)
            assert clean(store) == [f"{number:010}" for number in (1, 2, 3, 4)]

    clean(Watched(store, others_go_on))
    assert numbers(log) == [5, 6]


def test_with_a_batch_goes_all_that_is_its_own_and_nothing_else(store: MemoryStore, log: PipelineLog) -> None:
    claim_output(store, OUTPUT, PIPELINE, "log")
    for number in (1, 2, 3):
        done(log, number, OLD)
    before = set(store.objects)
    assert clean(store) == ["0000000001"]
    folder = f"{log.root}/batches/00000000/0000000001/"
    assert before - set(store.objects) == {name for name in before if name.startswith(folder)}
    assert {name.removeprefix(folder) for name in before - set(store.objects)} >= {"1.json", "2.json"}


def test_which_batch_a_run_took_stays_so_that_a_cleared_run_is_told(store: MemoryStore, log: PipelineLog) -> None:
    for number in (1, 2, 3):
        done(log, number, OLD)
    clean(store)
    found = log.batch_of_run(run(1))
    assert found is not None
    assert log.read(found.folder) is None
    assert (found.key, found.output) == (plan_of(1).batch.key, OUTPUT)


def test_everything_after_the_last_two_commits_stays(store: MemoryStore, log: PipelineLog) -> None:
    """The unfinished batch, and one that was passed by when the group was adopted."""
    for number in (1, 2, 3, 4):
        done(log, number, OLD)
    begin(log, 6, OLD)
    begin(log, 9, OLD)
    assert clean(store) == ["0000000001", "0000000002"]
    assert numbers(log) == [3, 4, 6, 9]


def test_a_batch_that_was_passed_by_goes_once_two_commits_are_above_it(store: MemoryStore, log: PipelineLog) -> None:
    begin(log, 1, OLD)
    for number in (5, 6, 7):
        done(log, number, OLD)
    assert clean(store) == ["0000000001", "0000000005"]


def test_nothing_young_goes(store: MemoryStore, log: PipelineLog) -> None:
    for number, at_ms in ((1, OLD), (2, BEFORE - 1), (3, BEFORE), (4, YOUNG), (5, YOUNG), (6, NOW)):
        done(log, number, at_ms)
    assert clean(store) == ["0000000001", "0000000002"]


def test_a_batch_is_as_young_as_its_last_entry_and_holds_back_those_after_it(
    store: MemoryStore, log: PipelineLog
) -> None:
    """It is being done again: its run will look for its log, and its position is asked for by nobody else."""
    for number in (1, 2, 3, 4, 5):
        done(log, number, OLD)
    take(log.batch(2), actor("b"), YOUNG, s0=1)
    assert clean(store) == ["0000000001"]
    assert numbers(log) == [2, 3, 4, 5]


def test_after_a_clean_the_next_number_is_still_higher(store: MemoryStore, log: PipelineLog) -> None:
    for number in (98, 99, 100, 101):
        done(log, number, OLD)
    clean(store)
    newest, newest_commit = log.newest(), log.newest_commit()
    assert newest is not None
    assert newest == newest_commit
    assert newest.log.plan.batch.number == 101
    begin(log, 102)
    assert numbers(log) == [100, 101, 102]


def test_each_pipeline_is_cleaned_for_itself(store: MemoryStore) -> None:
    for name in ("a", "b/c"):
        for number in (1, 2, 3):
            done(PipelineLog(store, name), number, OLD)
    done(PipelineLog(store, "young"), 1, YOUNG)
    found = [(removal.pipeline.pipeline_id, removal.kind, short(removal)) for removal in find_old(store, BEFORE)]
    assert found == [("a", "batches", "0000000001"), ("b/c", "batches", "0000000001")]


def test_looking_removes_nothing_and_what_it_shows_is_what_goes(store: MemoryStore, log: PipelineLog) -> None:
    for number in (1, 2, 3, 4):
        done(log, number, OLD)
    before = set(store.objects)
    shown = {name for removal in find_old(store, BEFORE) for name in removal.names}
    assert set(store.objects) == before
    clean(store)
    assert before - set(store.objects) == shown


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────

ANCIENT = TimeClaim(OLD - 40 * DAY, OLD)  # over a month's end: two places
RECENT = TimeClaim(YOUNG - DAY, YOUNG)


def done_window(log: PipelineLog, claim: Claim, at_ms: int, **fields: object) -> StoredBatch:
    window = begin_window(log, claim, at_ms, **fields)
    read(window)
    return commit(window, at_ms)


def left_of(store: MemoryStore, claim: Claim) -> list[str]:
    """The objects that name it, without their folders."""
    return [name.rpartition("/")[2] for name in store.objects if claim.name in name]


def test_an_old_window_goes_with_its_claims_in_every_month(store: MemoryStore, log: PipelineLog) -> None:
    done_window(log, ANCIENT, OLD)
    done_window(log, RECENT, YOUNG)
    assert len(ANCIENT.places) == 2
    assert clean(store) == [ANCIENT.name]
    assert (log.window(ANCIENT.name), log.windows()) == (None, [RECENT.name])
    assert left_of(store, ANCIENT) == ["3.json"], "the last name of its log, and nothing in any month"


def test_no_number_of_a_windows_log_comes_back(store: MemoryStore, log: PipelineLog) -> None:
    """A run that slept since it saw the window before it was cleaned would write into the next one's log."""
    slept = done_window(log, ANCIENT, OLD)
    clean(store)
    assert slept.append(Taken(actor("b"), NOW)) is None
    assert log.look_at_window(ANCIENT.name) == (None, 4)
    anew = log.begin_window(ANCIENT.name, 4, Planned(window_plan(ANCIENT)))
    assert anew is not None
    assert slept.append(Taken(actor("b"), NOW)) is None
    done = commit(anew)
    assert log.window(ANCIENT.name) == done
    assert [number for number, _ in done.entries()] == [4, 5], "what the clean has left is no entry of it"


def test_a_late_job_of_a_window_that_was_cleaned_stops_and_has_not_begun_the_one_after_it(
    store: MemoryStore, log: PipelineLog
) -> None:
    """Else nobody would look whether the output holds rows of splits that the new window does not have."""
    old = done_window(log, ANCIENT, OLD, splits=2)
    late = begin_as_driver(store, old.plan_object, old.log.plan, 1, OUTPUT)
    clean(store)
    begin_attempt(store, old.folder, 1, 3, "beef", {"plan_id": old.log.plan.plan_id})
    with pytest.raises(PlanReplaced, match="was cleaned away"):
        late.look()
    anew = log.begin_window(ANCIENT.name, 4, Planned(window_plan(ANCIENT, splits=1)))
    assert anew is not None
    assert not has_begun(anew.store, anew.plan_object)
    begin_as_driver(store, anew.plan_object, anew.log.plan, 0, OUTPUT)
    assert has_begun(anew.store, anew.plan_object)


def test_what_somebody_goes_to_work_on_after_it_was_found_stays(store: MemoryStore, log: PipelineLog) -> None:
    for number in (1, 2, 3):
        done(log, number, OLD)
    window = done_window(log, ANCIENT, OLD)
    found = list(find_old(store, BEFORE))
    for batch in (log.batch(1), window):
        assert batch is not None
        take(batch, actor("b"), NOW)
    before = set(store.objects)
    assert [remove(removal) for removal in found] == [False, False]
    assert set(store.objects) == before


def test_windows_stand_on_nothing_so_the_last_of_them_goes_too(store: MemoryStore, log: PipelineLog) -> None:
    for days in (30, 20, 10):
        done_window(log, TimeClaim(OLD - days * DAY, OLD - days * DAY + 1), OLD)
    assert len(clean(store)) == 3
    assert log.windows() == []


def test_a_window_of_long_ago_that_was_read_lately_stays(store: MemoryStore, log: PipelineLog) -> None:
    """A backfill, or a replay, of old days."""
    done_window(log, ANCIENT, YOUNG)
    replayed = TimeClaim(OLD - DAY, OLD)
    done_window(log, replayed, OLD).append(Taken(actor("b"), YOUNG))
    assert clean(store) == []


def test_a_window_by_offsets_goes_by_when_it_was_committed(store: MemoryStore, log: PipelineLog) -> None:
    old, young = (OffsetClaim((("orders", "id-of-orders", 0, 0, end),)) for end in (5, 6))
    done_window(log, old, OLD)
    done_window(log, young, YOUNG)
    assert clean(store) == [old.name]
    assert log.windows() == [young.name]


@pytest.mark.parametrize("claim", [ANCIENT, OffsetClaim((("orders", "id-of-orders", 0, 0, 5),))], ids=str)
def test_a_window_that_was_emptied_goes_with_the_claims_of_its_name(
    store: MemoryStore, log: PipelineLog, claim: Claim
) -> None:
    """Its plan claims nothing any more; its name is still in each place where it was written."""
    window = done_window(log, claim, OLD)
    anew = window.append(Planned(emptied(window.log.plan, actor("b"), "skip")))
    assert anew is not None
    read(anew, 2)
    commit(anew, OLD)
    assert clean(store) == [claim.name]
    assert left_of(store, claim) == ["5.json"]


def test_a_window_that_a_job_has_begun_and_nobody_has_committed_stays(store: MemoryStore, log: PipelineLog) -> None:
    """Half of it may be written: it has to block those that overlap it, until somebody decides."""
    window = begin_window(log, ANCIENT, OLD)
    begin_attempt(store, window.folder, 0, 1, "abcd", {})
    assert clean(store) == []


def test_a_window_that_was_planned_and_never_begun_goes(store: MemoryStore, log: PipelineLog) -> None:
    begin_window(log, ANCIENT, OLD)
    assert clean(store) == [ANCIENT.name]
    assert left_of(store, ANCIENT) == ["2.json"]


# ── what it costs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def asked(store: MemoryStore) -> list[tuple[str, str]]:
    counting = Counting(store)
    clean(counting)
    return counting.asked


@pytest.mark.parametrize("count", [10, 5_000])
def test_a_clean_that_has_nothing_to_do_asks_a_few_questions_however_long_the_log_is(
    store: MemoryStore, log: PipelineLog, count: int
) -> None:
    done(log, 1, YOUNG)
    for number in range(2, count - 1):  # of those in between only the names are ever looked at
        store.create(f"{log.root}/batches/{number // 100:08}/{number:010}/1.json", b"never read")
    for number in (count - 1, count):
        done(log, number, YOUNG)
    for hour in range(count):
        claim = TimeClaim(NOW + hour, NOW + hour + 1)
        log.claim(claim.name, claim.places, 1)  # which is never read
    assert len(asked(store)) <= 18


def test_what_a_clean_asks_grows_with_what_it_removes_and_not_with_what_stays(
    store: MemoryStore, log: PipelineLog
) -> None:
    def cost(old: int, young: int) -> int:
        store.replace({})
        for number in range(1, old + 1):
            done(log, number, OLD)
        for number in range(old + 1, old + young + 1):
            done(log, number, YOUNG)
        questions = asked(store)
        assert len(numbers(log)) == young
        return len(questions)

    assert cost(20, 5) == cost(20, 40)
    each = cost(21, 5) - cost(20, 5)
    assert cost(60, 5) - cost(20, 5) == 40 * each
    assert each <= 12, "read it, look for its reads, and delete each of its objects"


# ── a process that dies ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_clean_that_dies_at_any_step_leaves_a_log_that_can_be_read_and_the_next_one_takes_the_rest() -> None:
    for deletes in range(100):
        store = MemoryStore()
        log = PipelineLog(store, PIPELINE)
        for number in (1, 2, 3, 4):
            take(done(log, number, OLD), actor("b"), OLD)
        done_window(log, ANCIENT, OLD)
        whole = set(store.objects)
        try:
            clean(Dying(store, deletes, ["delete"]))
        except Crash:
            pass
        else:
            break
        newest = log.newest()
        assert newest is not None
        assert newest.log.plan.batch.number == 4
        assert [batch.log.plan.batch.number for batch in log.newest_first()][:2] == [4, 3]
        window = log.window(ANCIENT.name)
        assert window is None or window.log.committed, "never a window that seems to be unfinished"
        assert window is None or log.windows() == [ANCIENT.name], "what is there is claimed"
        clean(store)
        assert numbers(log) == [3, 4]
        gone = ("/0000000001/", "/0000000002/", ANCIENT.name)
        assert {name for name in store.objects if ANCIENT.name not in name} == {
            name for name in whole if not any(part in name for part in gone)
        }
        assert (log.window(ANCIENT.name), log.windows()) == (None, [])
    assert deletes == 2 * 6 + 4 + 2, "it was cut off before each single delete"


def test_a_folder_with_something_that_is_nobodys_stays_and_stops_nothing(store: MemoryStore, log: PipelineLog) -> None:
    for number in (1, 2, 3, 4):
        done(log, number, OLD)
    store.create("pipelines/readme.txt", b"x")
    store.create(f"{log.root}/notes/1.json", b"x")
    store.create(f"{log.root}/batches/readme.txt", encode({"version": 1}))
    assert clean(store) == ["0000000001", "0000000002"]
