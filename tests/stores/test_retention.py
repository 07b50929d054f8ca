"""What `clean` takes from the work store, what it leaves, and what is left if it dies in the middle."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import PlanLost
from airflow_kafka_offsets.frozen_plans import plan_run
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint, KeptOffset
from airflow_kafka_offsets.offsets.manifest import plan_to_dict
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.verify import PartitionRead, ReadReport
from airflow_kafka_offsets.planner import request_for
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore, open_work_store
from airflow_kafka_offsets.stores.reads import begin_read, latest_attempts, store_report
from airflow_kafka_offsets.stores.retention import find_old, remove
from airflow_kafka_offsets.stores.runs import (
    find_plan,
    find_plan_by_id,
    receipts,
    replace_plan,
    store_plan,
    store_plan_of_no_run,
    store_receipt,
)
from tests.cluster.memory import InMemoryCluster
from tests.offsets.builders import plan, planned

DAY_MS = 86_400_000
NOW_MS = 1_795_168_800_000
BEFORE_MS = NOW_MS - 90 * DAY_MS
OLD_MS = NOW_MS - 100 * DAY_MS
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> WorkStore:
    return open_work_store(str(root))


def run_key(name: str) -> RunKey:
    return RunKey("dag", name, "resolve")


def plan_of(name: str, at_ms: int, parent: str | None = "gone") -> OffsetPlan:
    return plan([planned(0, 0, 10)], run=run_key(name), resolved_at_ms=at_ms, parent=parent)


def keep_run(
    store: WorkStore, name: str, at_ms: int, *, receipt: bool = True, parent: str | None = "gone"
) -> OffsetPlan:
    """A run that was planned, read and committed."""
    kept = store_plan(store, run_key(name), plan_of(name, at_ms, parent)).plan
    attempt = begin_read(store, kept, 0, f"lake/run={name}/split=0")
    store_report(store, ReadReport(kept.plan_id, 0, attempt, "counts", {ORDERS: PartitionRead(10, 0, 9)}))
    if receipt:
        store_receipt(store, run_key(name), kept)
    return kept


def keep_chain(store: WorkStore, plan_ids: list[str | None]) -> list[Checkpoint]:
    chain, links = CheckpointChain(store, "cluster-1", "pipeline"), []
    for sequence, plan_id in enumerate(plan_ids):
        link = Checkpoint(
            sequence=sequence,
            parent=links[-1].id if links else None,
            checkpoint_id="pipeline",
            cluster_id="cluster-1",
            group_id="g",
            plan_id=plan_id,
            run=None,
            startup="earliest-offset",
            subscription="topics orders",
            topic_ids={"orders": "id"},
            offsets={ORDERS: KeptOffset(sequence)},
        )
        assert chain.append(link)
        links.append(link)
    return links


def age(root: Path, at_ms: int, pattern: str = "**/*") -> None:
    """As if the files had been written then."""
    for file in root.glob(pattern):
        if file.is_file():
            os.utime(file, (at_ms / 1000, at_ms / 1000))


def objects(root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in root.glob("**/*") if file.is_file()}


def clean(store: WorkStore, before_ms: int = BEFORE_MS) -> Counter[str]:
    old = find_old(store, before_ms)
    remove(store, old)
    return Counter(removal.kind for removal in old)


def test_an_old_run_goes_with_all_that_belongs_to_it_and_a_young_one_stays(store: WorkStore, root: Path) -> None:
    keep_run(store, "young", NOW_MS)
    young = objects(root)
    keep_run(store, "old", OLD_MS)
    age(root, OLD_MS, "plans/dag/old/**/*")
    for folder in ("reads", "outputs"):
        for name in objects(root) - young:
            if name.startswith(folder):
                os.utime(root / name, (OLD_MS / 1000, OLD_MS / 1000))
    assert clean(store) == {"plans": 1, "reads": 3, "receipts": 1, "outputs": 1}
    assert objects(root) == young
    assert not (root / "plans" / "dag" / "old").exists()


def test_looking_removes_nothing_and_what_it_shows_is_what_goes(store: WorkStore, root: Path) -> None:
    keep_run(store, "old", OLD_MS)
    age(root, OLD_MS)
    before = objects(root)
    old = find_old(store, BEFORE_MS)
    assert {removal.name for removal in old} == objects(root) == before
    assert sum(removal.size for removal in old) == sum((root / name).stat().st_size for name in before)


@pytest.mark.parametrize("young", ["plans/**/receipt.1.json", "reads/**/begun.1.json", "reads/**/report.1.json"])
def test_a_run_stays_whole_while_anything_of_it_is_young(store: WorkStore, root: Path, young: str) -> None:
    keep_run(store, "old", OLD_MS)
    age(root, OLD_MS)
    age(root, NOW_MS, young)
    before = objects(root)
    assert clean(store) == {}
    assert objects(root) == before


def test_a_plans_age_is_what_it_says_not_when_its_file_was_copied(store: WorkStore, root: Path) -> None:
    keep_run(store, "old", OLD_MS)
    age(root, OLD_MS)
    age(root, NOW_MS, "plans/**/plan.1.json")
    assert clean(store)["plans"] == 1


def test_a_plan_that_replaced_an_old_one_a_moment_ago_is_young(store: WorkStore, root: Path) -> None:
    """It has the resolve time of the plan whose place it took."""
    old = store_plan(store, run_key("one"), plan_of("one", OLD_MS)).plan
    age(root, OLD_MS)
    advanced = replace(old, partitions=(planned(0, 5, 10),), replaces=old.plan_id)
    replace_plan(store, run_key("one"), advanced)
    age(root, NOW_MS, "plans/**/plan.2.json")
    assert clean(store) == {}


def test_a_plan_that_goes_on_from_the_newest_checkpoint_stays_however_old(store: WorkStore, root: Path) -> None:
    """Its commit may have landed without its checkpoint, which the next run writes from this plan."""
    links = keep_chain(store, [None, "p1"])
    waiting = keep_run(store, "waiting", OLD_MS, receipt=False, parent=links[-1].id)
    by_hand = replace(waiting, run=None, partitions=(planned(0, 7, 7),))
    store_plan_of_no_run(store, by_hand)
    age(root, OLD_MS)
    before = objects(root)
    assert clean(store) == {}
    assert objects(root) == before
    assert find_plan_by_id(store, by_hand.plan_id) == by_hand
    CheckpointChain(store, "cluster-1", "pipeline").append(
        replace(links[-1], sequence=2, parent=links[-1].id, plan_id="p2")
    )
    assert clean(store)["plans"] == 2


def test_the_plan_of_the_newest_checkpoint_stays_because_marks_name_it(store: WorkStore, root: Path) -> None:
    last = keep_run(store, "last", OLD_MS)
    keep_chain(store, [None, last.plan_id])
    age(root, OLD_MS)
    assert clean(store) == {}


def test_the_newest_two_checkpoints_stay_however_old_and_the_chain_goes_on(store: WorkStore, root: Path) -> None:
    links = keep_chain(store, [None, "p1", "p2", "p3"])
    age(root, OLD_MS)
    assert clean(store) == {"checkpoints": 2}
    chain = CheckpointChain(store, "cluster-1", "pipeline")
    assert [link.id for link in chain.newest_first()] == [links[3].id, links[2].id]
    assert chain.append(replace(links[3], sequence=4, parent=links[3].id))
    assert chain.required().sequence == 4


def test_two_valid_checkpoints_are_kept_beside_half_written_ones(store: WorkStore, root: Path) -> None:
    links = keep_chain(store, [None, "p1", "p2"])
    folder = next(root.glob("checkpoints/*/*"))
    (folder / "checkpoint.3.json").write_text("half")
    (folder / "checkpoint.4.json").write_text("half")
    age(root, OLD_MS)
    assert clean(store) == {}
    assert [link.id for link in CheckpointChain(store, "cluster-1", "pipeline").newest_first()] == [
        links[1].id,
        links[0].id,
    ]


def test_a_young_checkpoint_stays(store: WorkStore, root: Path) -> None:
    keep_chain(store, [None, "p1", "p2", "p3"])
    age(root, OLD_MS, "checkpoints/**/checkpoint.1.json")
    assert clean(store) == {"checkpoints": 1}


def test_a_checkpoint_that_is_the_record_of_a_kept_plans_commit_stays(store: WorkStore, root: Path) -> None:
    kept = keep_run(store, "kept", NOW_MS, receipt=False)
    keep_chain(store, [None, kept.plan_id, "p2", "p3"])
    age(root, OLD_MS, "checkpoints/**/*")
    assert clean(store) == {"checkpoints": 1}
    chain = CheckpointChain(store, "cluster-1", "pipeline")
    assert kept.plan_id in {link.plan_id for link in chain.newest_first()}


def test_an_output_stays_its_owners_while_that_runs_plan_stays(store: WorkStore, root: Path) -> None:
    keep_run(store, "kept", NOW_MS)
    age(root, OLD_MS, "outputs/**/*")
    assert clean(store) == {}


def test_a_plan_of_a_version_that_is_not_known_here_stays(store: WorkStore, root: Path) -> None:
    value = {**plan_to_dict(plan_of("newer", OLD_MS)), "version": 2}
    store.create("plans/dag/newer/resolve/-1/plan.1.json", value)
    store.create(f"reads/{value['plan_id']}/0/begun.1.json", {"version": 2})
    age(root, OLD_MS)
    assert clean(store) == {}


def test_turns_that_are_over_go_but_the_last_so_that_no_number_is_given_twice(store: WorkStore, root: Path) -> None:
    keep_chain(store, [None])
    folder = str(next(root.glob("checkpoints/*/*")).relative_to(root))
    for number in (1, 2, 3):
        store.append(folder, "turn", {"version": 1})
        if number != 2:
            store.create(f"{folder}/over.{number}.json", {"version": 1})
    age(root, OLD_MS)
    old = [Path(removal.name).name for removal in find_old(store, BEFORE_MS)]
    assert old == ["turn.1.json", "over.1.json"]


def test_what_nobody_knows_stays(store: WorkStore, root: Path) -> None:
    store.create("something/else.1.json", {"version": 1})
    age(root, OLD_MS)
    assert clean(store) == {}


def test_what_has_no_time_stays(store: WorkStore, root: Path) -> None:
    """Some object stores tell none."""
    keep_run(store, "old", OLD_MS)
    age(root, OLD_MS)
    age(root, 0, "plans/**/receipt.1.json")
    before = objects(root)
    assert clean(store) == {}
    assert objects(root) == before


class Killed(Exception):
    """The process is gone."""


class DiesAfter(WorkStore):
    """A store whose process is killed after so many removals."""

    left = 0

    def remove(self, name: str) -> None:
        if not self.left:
            raise Killed
        self.left -= 1
        super().remove(name)


@pytest.mark.parametrize("removals", range(7))
def test_a_crash_at_any_step_leaves_a_run_that_is_whole_or_refused_or_gone(
    store: WorkStore, root: Path, removals: int
) -> None:
    """Never a committed run that would be planned anew while something of it is left that knows better."""
    keep_run(store, "old", OLD_MS)
    age(root, OLD_MS)
    dying = DiesAfter(store.root, store.uri)
    dying.left = removals
    old = find_old(store, BEFORE_MS)
    assert len(old) == 6
    if removals < len(old):
        with pytest.raises(Killed):
            remove(dying, old)
    else:
        remove(dying, old)

    key = run_key("old")
    found = find_plan(store, key)
    if found is not None:  # whole: it can be verified and is known as committed
        assert found.plan.plan_id in receipts(store, key)
        assert latest_attempts(store, found.plan, [0])[0].report is not None
    elif receipts(store, key):
        cluster = InMemoryCluster()
        cluster.create_topic("orders")
        request = request_for(
            {}, {"topics": ["orders"], "group_id": "g", "startup_mode": "earliest-offset", "run": key}
        )
        with pytest.raises(PlanLost):
            plan_run(request, key, store, cluster)
    else:
        assert not list(root.glob("reads/**/*.json"))

    clean(store)  # the next one takes the rest
    assert objects(root) == set()
