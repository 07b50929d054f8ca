"""Windows, over both clusters: which run has one, and when its ends are mirrored to the group."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets import frozen_plans
from airflow_kafka_offsets.committing import commit_offsets
from airflow_kafka_offsets.errors import (
    CommitConflict,
    GroupActive,
    InvalidRequest,
    PlanCommitted,
    ReadNotVerified,
    TopicRecreated,
    WindowRepeated,
)
from airflow_kafka_offsets.offsets.commits import CommitMark, mark_of
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.stores.objects import WorkStore
from tests.cluster.commits import Interrupted, commit
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline, ranges
from tests.contract.troubles import Killed, die

HOUR = 3_600_000
T = 1_795_132_800_000 - 2 * HOUR  # two hours before a midnight, so that windows lie on both sides of it


def hours(first: int, last: int) -> dict[str, Any]:
    return {
        "startup_mode": "timestamp",
        "startup_timestamp": T + first * HOUR,
        "bounded_mode": "timestamp",
        "bounded_timestamp": T + last * HOUR,
    }


def offsets(topic: str, start: int, end: int) -> dict[str, Any]:
    return {
        "run_type": "manual",
        "startup_mode": "specific-offsets",
        "specific_offsets": {topic: {str(n): start if n == 0 else 0 for n in range(3)}},
        "bounded_mode": "specific-offsets",
        "bounded_offsets": {topic: {str(n): end if n == 0 else 0 for n in range(3)}},
    }


@pytest.fixture
def pipeline(cluster: AnyCluster, store: WorkStore, orders: str, group: str) -> Pipeline:
    """Four hours, two records in each, in partition 0; in partition 1 one of the second hour; partition 2 is empty."""
    cluster.produce(orders, timestamps_ms=[T + half * HOUR // 2 for half in range(8)])
    cluster.produce(orders, partition=1, timestamps_ms=[T + HOUR])
    return Pipeline(cluster.reader, store, orders, group, {})


def held(cluster: AnyCluster, pipeline: Pipeline) -> dict[int, int]:
    found = cluster.reader.committed(pipeline.group, [TopicPartition(pipeline.topic, n) for n in range(3)])
    return {tp.partition: commit.offset for tp, commit in found.items()}


def stand(cluster: AnyCluster, pipeline: Pipeline, *at: int) -> None:
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, n): at[n] for n in range(len(at))})


class Died(Exception):
    """The worker is gone."""


class DyingStore(WorkStore):
    """A store whose client dies right before it writes an object whose name begins with ``before``."""

    def __init__(self, store: WorkStore, before: str) -> None:
        super().__init__(store.root, store.uri)
        self.before = before

    def create(self, name: str, value: dict[str, Any]) -> bool:
        if name.startswith(self.before) or name.split("/")[-1].startswith(self.before):
            raise Died
        return super().create(name, value)


def die_before(pipeline: Pipeline, before: str, run: str, **window: Any) -> None:
    whole = pipeline.store
    pipeline.store = DyingStore(whole, before)
    with pytest.raises(Died):
        pipeline.plan(run, **window)
    pipeline.store = whole


# ── which run has a window ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_window_that_another_run_has_is_refused_naming_that_run_and_the_ways_on(pipeline: Pipeline) -> None:
    pipeline.plan("first", **hours(0, 2))
    with pytest.raises(WindowRepeated) as refused:
        pipeline.plan("second", **hours(1, 3))
    assert refused.value.rivals == ["run dag/first/resolve has window 2026-11-19T22:00Z to 2026-11-20T00:00Z"]
    for fact in ("dag/second/resolve", "2026-11-19T23:00Z", "clear the run that has it", "checkpoint_id of its own"):
        assert fact in str(refused.value)


def test_a_refused_run_has_no_plan_and_is_in_nobodys_way(pipeline: Pipeline) -> None:
    pipeline.plan("first", **hours(0, 2))
    with pytest.raises(WindowRepeated):
        pipeline.plan("second", **hours(1, 3))
    assert ranges(pipeline.plan("third", **hours(2, 3)))[0] == (4, 6)
    with pytest.raises(WindowRepeated) as refused:
        pipeline.plan("second", **hours(1, 3))
    assert len(refused.value.rivals) == 1 or "third" not in refused.value.rivals[0]


def test_adjacent_windows_are_in_nobodys_way_in_any_order(pipeline: Pipeline) -> None:
    parts = [ranges(pipeline.plan(f"hour-{n}", **hours(n, n + 1)))[0] for n in (2, 0, 3, 1)]
    assert sorted(parts) == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_a_run_is_never_in_its_own_way(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """A retry, a clear after its success, a backfill that reprocesses it, a re-plan."""
    window = hours(0, 3)
    plan = pipeline.plan("run", **window)
    assert pipeline.plan("run", **window) == plan
    pipeline.read(plan)
    pipeline.commit(plan)
    assert pipeline.plan("run", **window) == plan
    assert pipeline.plan("run", **window, re_plan=True) == plan
    cluster.create_topic(f"{pipeline.topic}-2")
    successor = pipeline.plan("run", **window, re_plan=True, topics=[pipeline.topic, f"{pipeline.topic}-2"])
    assert successor.replaces == plan.plan_id
    assert pipeline.plan("run", **window) == successor


def test_a_run_may_be_planned_anew_with_a_window_that_overlaps_its_own(pipeline: Pipeline) -> None:
    pipeline.plan("run", **hours(0, 1))
    assert ranges(pipeline.plan("run", **hours(0, 2), re_plan=True))[0] == (0, 4)
    with pytest.raises(WindowRepeated, match="run dag/run/resolve"):
        pipeline.plan("other", **hours(1, 2))


def test_a_run_that_is_planned_anew_with_another_window_gives_the_first_one_up(pipeline: Pipeline) -> None:
    pipeline.plan("moved", **hours(0, 1))
    assert ranges(pipeline.plan("moved", **hours(1, 2), re_plan=True))[0] == (2, 4)
    with pytest.raises(WindowRepeated, match="run dag/moved/resolve"):
        pipeline.plan("other", **hours(1, 2))
    assert ranges(pipeline.plan("other", **hours(0, 1)))[0] == (0, 2)
    with pytest.raises(WindowRepeated, match="run dag/other/resolve"):
        pipeline.plan("moved", **hours(0, 2), re_plan=True)
    assert ranges(pipeline.plan("moved"))[0] == (2, 4), "what it had before is still its plan"


def test_a_window_given_up_by_a_re_plan_that_died_is_free_once_that_run_is_cleared(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.plan("moved", **hours(0, 1))
    with monkeypatch.context() as patch:
        patch.setattr(frozen_plans, "_release_window", die)
        with pytest.raises(Killed):
            pipeline.plan("moved", **hours(1, 2), re_plan=True)
    assert ranges(pipeline.plan("moved"))[0] == (2, 4)
    assert ranges(pipeline.plan("other", **hours(0, 1)))[0] == (0, 2)


def test_another_checkpoint_id_is_another_output(pipeline: Pipeline) -> None:
    pipeline.plan("first", **hours(0, 2))
    assert ranges(pipeline.plan("second", **hours(0, 2), checkpoint_id="for the auditors"))[0] == (0, 4)


def test_a_run_that_is_about_to_plan_is_waited_for_by_retries_and_a_dead_one_is_not(pipeline: Pipeline) -> None:
    die_before(pipeline, "settled", "slow", **hours(0, 2))
    pipeline.is_alive = lambda run: run.run_id == "slow"
    with pytest.raises(WindowRepeated, match="run dag/slow/resolve is about to take window"):
        pipeline.plan("fast", **hours(0, 1))
    pipeline.is_alive = lambda run: False
    assert ranges(pipeline.plan("fast", **hours(0, 1)))[0] == (0, 2)
    with pytest.raises(WindowRepeated, match="run dag/fast/resolve has"):
        pipeline.plan("slow", **hours(0, 2))  # it was not dead after all


def test_a_run_that_died_in_the_middle_gets_its_window_when_it_is_tried_again(pipeline: Pipeline) -> None:
    """Over midnight: registered and not settled; settled and not planned, where the window is its own already."""
    window = hours(1, 3)
    for before in ("settled", "plans/"):
        die_before(pipeline, before, "run", **window)
    with pytest.raises(WindowRepeated, match="run dag/run/resolve has"):
        pipeline.plan("other", **window)
    assert ranges(pipeline.plan("run", **window))[0] == (2, 6)


def test_a_window_over_midnight_meets_those_of_both_days(pipeline: Pipeline) -> None:
    pipeline.plan("tomorrow", **hours(2, 3))
    with pytest.raises(WindowRepeated, match="dag/tomorrow/resolve"):
        pipeline.plan("both", **hours(1, 4))
    assert ranges(pipeline.plan("today", **hours(1, 2)))[0] == (2, 4)


def test_a_window_of_a_lost_work_store_is_held_again_by_the_replay(pipeline: Pipeline) -> None:
    plan = pipeline.plan("run", **hours(0, 2))
    for path in sorted(pipeline.store.root.glob("windows/**/*.json")):
        path.unlink()
    assert pipeline.plan("run", **hours(0, 2)) == plan
    with pytest.raises(WindowRepeated, match="dag/run/resolve"):
        pipeline.plan("other", **hours(0, 2))


def test_a_plan_reads_the_windows_of_its_own_days_only(pipeline: Pipeline) -> None:
    for number in range(4):
        pipeline.plan(f"old-{number}", **hours(number - 80, number - 79))
    names: list[str] = []

    class Noting(WorkStore):
        def read(self, name: str) -> Any:
            names.append(name)
            return super().read(name)

    quiet = pipeline.store
    pipeline.store = Noting(quiet.root, quiet.uri)
    pipeline.plan("today", **hours(0, 1))
    assert {name.split("/")[3] for name in names if name.startswith("windows/")} == {"2026-11-19"}


def test_windows_by_offsets_are_compared_by_partition(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.plan("by hand", **offsets(pipeline.topic, 0, 4))
    with pytest.raises(WindowRepeated, match=rf"offsets 0 to 4 of {pipeline.topic}\[0\]"):
        pipeline.plan("again", **offsets(pipeline.topic, 3, 6))
    plan = pipeline.plan("rest", **offsets(pipeline.topic, 4, 8))
    assert pipeline.plan("rest", **offsets(pipeline.topic, 4, 8)) == plan
    cluster.recreate_topic(pipeline.topic)
    cluster.produce(pipeline.topic, 4)
    assert ranges(pipeline.plan("new log", **offsets(pipeline.topic, 0, 4)))[0] == (0, 4)


def test_on_a_position_plan_the_register_is_not_asked(pipeline: Pipeline) -> None:
    pipeline.run("position", startup_mode="earliest-offset")
    assert not (pipeline.store.root / "windows").exists()


# ── mirrored windows ──────────────────────────────────────────────────────────────────────────────────────────────────

MIRROR = {"commit_mode": "on-success"}


def read_window(pipeline: Pipeline, run: str, first: int, last: int) -> OffsetPlan:
    plan = pipeline.plan(run, **hours(first, last))
    pipeline.read(plan)
    return plan


def test_by_default_a_window_moves_no_group(cluster: AnyCluster, pipeline: Pipeline) -> None:
    stand(cluster, pipeline, 0, 0, 0)
    plan = read_window(pipeline, "run", 0, 1)
    assert plan.group_id == pipeline.group
    assert [p.base_offset for p in plan.partitions] == [None] * 3
    assert "window" in (pipeline.commit(plan).not_committed or "")
    assert held(cluster, pipeline) == {0: 0, 1: 0, 2: 0}


def test_hourly_windows_are_mirrored_one_after_another(cluster: AnyCluster, pipeline: Pipeline) -> None:
    stand(cluster, pipeline, 0, 0, 0)
    for number, ends in enumerate([(2, 0, 0), (4, 1, 0), (6, 1, 0), (8, 1, 0)]):
        plan = read_window(pipeline, f"hour-{number}", number, number + 1)
        outcome = pipeline.commit(plan, **MIRROR)
        assert outcome.not_committed is None
        assert held(cluster, pipeline) == dict(enumerate(ends))


def test_the_mark_of_a_mirrored_window_says_so_and_is_no_position(cluster: AnyCluster, pipeline: Pipeline) -> None:
    stand(cluster, pipeline, 0, 0, 0)
    plan = read_window(pipeline, "window", 0, 1)
    pipeline.commit(plan, **MIRROR)
    tp = TopicPartition(pipeline.topic, 0)
    mark = CommitMark.of(cluster.reader.committed(pipeline.group, [tp])[tp])
    assert mark == mark_of(plan)
    assert mark is not None
    assert mark.window
    assert ranges(pipeline.plan("live", startup_mode="earliest-offset"))[0] == (0, 8)


@pytest.mark.parametrize("at", [(), (0,), (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 0, 1)], ids=str)
def test_a_group_that_stands_elsewhere_in_one_partition_is_left_and_the_outcome_says_where(
    cluster: AnyCluster, pipeline: Pipeline, at: tuple[int, ...]
) -> None:
    if len(at) == 3 and at[2]:
        cluster.produce(pipeline.topic, partition=2, timestamps_ms=[T + 3 * HOUR])
    stand(cluster, pipeline, *at) if at else None
    plan = read_window(pipeline, "run", 0, 1)
    outcome = pipeline.commit(plan, **MIRROR)
    assert outcome.written == {}
    assert f"{pipeline.topic}[" in (outcome.not_committed or "")
    assert held(cluster, pipeline) == dict(enumerate(at))
    assert pipeline.commit(plan, **MIRROR).not_committed == outcome.not_committed


def test_a_pipeline_with_a_checkpoint_is_not_mirrored(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.plan("live", startup_mode="earliest-offset")
    stand(cluster, pipeline, 0, 0, 0)
    outcome = pipeline.commit(read_window(pipeline, "window", 0, 1), **MIRROR)
    assert "has a checkpoint" in (outcome.not_committed or "")
    assert held(cluster, pipeline) == {0: 0, 1: 0, 2: 0}


def test_a_position_of_another_pipeline_on_the_group_is_not_replaced_by_a_window(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """Its checkpoints are elsewhere: with its mark gone, and its work store, it would not know where to go on."""
    live = pipeline.run("live", **{**offsets(pipeline.topic, 0, 2), "run_type": "scheduled"}, checkpoint_id="another")
    assert held(cluster, pipeline) == {0: 2, 1: 0, 2: 0}
    outcome = pipeline.commit(read_window(pipeline, "window", 1, 2), **MIRROR)
    assert live.plan_id in (outcome.not_committed or "")
    assert held(cluster, pipeline) == {0: 2, 1: 0, 2: 0}


def test_a_mirror_that_landed_is_repeated_without_harm(cluster: AnyCluster, pipeline: Pipeline) -> None:
    def lose() -> None:
        raise ConnectionError("the answer is lost")

    stand(cluster, pipeline, 0, 0, 0)
    plan = read_window(pipeline, "run", 0, 2)
    pipeline.cluster = Interrupted(cluster.reader, after_commit=lose)
    with pytest.raises(ConnectionError):
        pipeline.commit(plan, **MIRROR)
    pipeline.cluster = cluster.reader
    for _retry_and_clear in range(2):
        assert pipeline.commit(plan, **MIRROR).not_committed is None
        assert held(cluster, pipeline) == {0: 4, 1: 1, 2: 0}


def test_a_mirror_that_landed_in_part_is_ended_by_the_retry(cluster: AnyCluster, pipeline: Pipeline) -> None:
    stand(cluster, pipeline, 0, 0, 0)
    plan = read_window(pipeline, "run", 0, 2)
    tp = TopicPartition(pipeline.topic, 0)
    commit(cluster.reader, pipeline.group, {tp: CommittedOffset(4, None, mark_of(plan).encode())})
    assert pipeline.commit(plan, **MIRROR).not_committed is None
    assert held(cluster, pipeline) == {0: 4, 1: 1, 2: 0}


def test_a_window_that_is_cleared_after_the_next_one_leaves_the_group_alone(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    stand(cluster, pipeline, 0, 0, 0)
    first = read_window(pipeline, "first", 0, 1)
    pipeline.commit(first, **MIRROR)
    pipeline.commit(read_window(pipeline, "second", 1, 2), **MIRROR)
    assert "the group is at 4" in (pipeline.commit(first, **MIRROR).not_committed or "")
    assert held(cluster, pipeline) == {0: 4, 1: 1, 2: 0}


def test_a_window_that_was_mirrored_is_not_planned_anew(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """The group tells its followers that this window was read, as it was."""
    stand(cluster, pipeline, 0, 0, 0)
    pipeline.commit(read_window(pipeline, "run", 0, 1), **MIRROR)
    with pytest.raises(PlanCommitted):
        pipeline.plan("run", **hours(0, 2), re_plan=True)


def test_a_topic_that_was_made_anew_is_not_mirrored(cluster: AnyCluster, pipeline: Pipeline) -> None:
    plan = read_window(pipeline, "run", 0, 1)
    cluster.recreate_topic(pipeline.topic)
    stand(cluster, pipeline, 0, 0, 0)
    with pytest.raises(TopicRecreated):
        pipeline.commit(plan, **MIRROR)
    assert held(cluster, pipeline) == {0: 0, 1: 0, 2: 0}


def test_what_was_not_read_is_not_mirrored(cluster: AnyCluster, pipeline: Pipeline) -> None:
    stand(cluster, pipeline, 0, 0, 0)
    with pytest.raises(ReadNotVerified):
        pipeline.commit(pipeline.plan("run", **hours(0, 1)), **MIRROR)
    assert held(cluster, pipeline) == {0: 0, 1: 0, 2: 0}


def test_a_mirror_is_written_as_any_commit_is(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Not under a live group, and not where the group moved between the two looks."""
    stand(cluster, pipeline, 0, 0, 0)
    plan = read_window(pipeline, "run", 0, 1)
    with cluster.live_member(pipeline.group, pipeline.topic), pytest.raises(GroupActive):
        pipeline.commit(plan, **MIRROR)
    stand(cluster, pipeline, 0, 0, 0)
    pipeline.cluster = Interrupted(cluster.reader, before_second_look=lambda: stand(cluster, pipeline, 1, 0, 0))
    with pytest.raises(CommitConflict, match="from 0 to 1"):
        pipeline.commit(plan, **MIRROR)
    assert held(cluster, pipeline) == {0: 1, 1: 0, 2: 0}


def test_without_a_work_store_a_window_is_not_committed(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Nothing can tell there whether the pipeline has a checkpoint."""
    stand(cluster, pipeline, 0, 0, 0)
    with pytest.raises(InvalidRequest, match="is a window"):
        commit_offsets(pipeline.plan("run", **hours(0, 1)), cluster.reader)


def test_a_window_without_a_group_cannot_be_mirrored(cluster: AnyCluster, pipeline: Pipeline) -> None:
    plan = pipeline.plan("run", **hours(0, 1), group_id=None)
    pipeline.read(plan)
    with pytest.raises(InvalidRequest, match="no consumer group"):
        pipeline.commit(plan, **MIRROR)
    assert pipeline.commit(plan).not_committed
