"""The commands that write: ``reset``, ``skip``, ``clean``. Without ``--execute`` they write nothing."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.engine.work import Nothing
from airflow_kafka_offsets.errors import CheckpointLost, GroupMoved, OutputChanged, PlanReplaced, ReadNotVerified
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cli.conftest import Run
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, produce, ranges_of, tp


def held(cluster: InMemoryCluster) -> dict[TopicPartition, int]:
    return {tp: committed.offset for tp, committed in cluster.groups.get("lake", {}).items()}


def objects(pipeline: Pipeline) -> dict[str, bytes]:
    assert isinstance(pipeline.store, MemoryStore)
    return dict(pipeline.store.objects)


# ── reset ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "command", ["reset orders --start latest", "reset orders --start current", "skip orders orders-0:12"]
)
def test_without_execute_nothing_is_written(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, command: str
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    pipeline.begin(pipeline.work())
    before = objects(pipeline), held(cluster)
    ended = run(command)
    assert (objects(pipeline), held(cluster)) == before
    assert "This was a dry run" in ended.err
    assert "Let Spark jobs of this pipeline end first" in ended.err
    executed = run(f"{command} --execute")
    assert executed.out == ended.out  # the dry run was the same turn
    assert objects(pipeline) != before[0]


def test_reset_sets_the_position_and_the_group_follows(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    produce(cluster, 1, 3)
    answer = run("reset orders --execute --output json --start", 'offsets:{"orders": {"0": 15}}').json
    assert [(row["before"], row["after"], row["skipped"]) for row in answer["partitions"]] == [
        (10, 15, 5),
        (0, 0, None),
        (0, 0, None),
    ]
    assert held(cluster) == {tp(0): 15, tp(1): 0, tp(2): 0}
    assert ranges_of(pipeline.work()) == {0: (15, 20), 1: (0, 3), 2: (0, 0)}


def test_to_read_records_again_is_refused_and_shown(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    ended = run("reset orders --start earliest --output json", status=1)
    assert [row["again"] for row in ended.json["partitions"]] == [10, None, None]
    assert "add --allow-duplicates to kafka-offsets reset orders" in ended.err
    assert run("reset orders --start earliest --execute", status=1).out == ""
    run("reset orders --start earliest --allow-duplicates --execute")
    assert ranges_of(pipeline.work())[0] == (0, 10)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("timestamp:{now}", 10),
        ("offsets:partition:0,offset:3;partition:1,offset:0;partition:2,offset:0", 3),
        ("@{file}", 4),
        ("latest", 12),
    ],
)
def test_a_start_takes_every_form(
    cluster: InMemoryCluster, run: Run, tmp_path: object, start: str, expected: int
) -> None:
    cluster.produce(tp(0), [cluster.now_ms - HOUR] * 10 + [cluster.now_ms] * 2)
    file = f"{tmp_path}/offsets.json"
    with open(file, "w") as out:
        out.write('{"orders": {"0": 4, "1": 0, "2": 0}}')
    words = "reset new --topics orders --output json --start"
    answer = run(words, start.format(now=cluster.now_ms, file=file)).json
    assert answer["partitions"][0]["after"] == expected


def test_a_moved_group_is_acknowledged(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    """The line that the refusal ends with is the way on."""
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    with pytest.raises(GroupMoved, match="kafka-offsets reset orders --start current --execute"):
        pipeline.resolve()
    answer = run("reset orders --start current --execute --output json").json
    assert answer["batch"] == 2
    assert [(row["position"], row["group_holds"]) for row in answer["partitions"]] == [(10, 3), (0, 0), (0, 0)]
    assert held(cluster)[tp(0)] == 10
    assert isinstance(pipeline.resolve(), Nothing)


def test_an_output_that_moved_is_acknowledged_for_later_jobs(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    work = pipeline.work("two")
    pipeline.drive(work, output="delta:/new")
    with pytest.raises(OutputChanged):
        pipeline.commit(work)
    written = f"Written so far: delta:/new, files:/lake/orders. Its key: {work.key}"
    assert written in run("reset orders --start current --execute").err
    work = pipeline.work("two")
    with pytest.raises(ReadNotVerified, match="attempts up to 1 no longer count"):
        pipeline.commit(work)
    pipeline.drive(work, output="delta:/new")
    assert pipeline.commit(work).output == "delta:/new"


def test_a_lost_log_goes_on_from_what_the_group_has(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.store = MemoryStore()
    with pytest.raises(CheckpointLost):
        pipeline.resolve()
    assert "give --topics, and --group-id" in run("reset orders --start group-offsets", status=2).err
    words = "--topics orders --group-id lake"
    for start in ("current", "earliest"):
        assert "--start group-offsets" in run(f"reset orders --start {start} {words}", status=1).err
    assert "rows with offset 10 or a later one" in run(f"reset orders --start group-offsets {words}", status=1).err
    run(f"reset orders --start group-offsets {words} --allow-duplicates --execute")
    produce(cluster, 0, 2)
    assert ranges_of(pipeline.work())[0] == (10, 12)


def test_a_window_is_acknowledged_by_its_name(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    start, end = cluster.now_ms - 2 * HOUR, cluster.now_ms - HOUR
    produce(cluster, 0, 2)
    cluster.now_ms += 2 * HOUR
    want = pipeline.window(start, end + 2 * HOUR)
    work = pipeline.work("one", want)
    pipeline.drive(work)
    assert "by window: add --window START END" in run("reset orders --start current", status=2).err
    assert "--start current --window" in run("reset orders --start latest", status=1).err
    assert "no batch of window" in run(f"reset orders --start current --window {start} {end}", status=2).err
    run(f"reset orders --start current --window {start} {end + 2 * HOUR} --execute")
    with pytest.raises(ReadNotVerified, match="attempts up to 1 no longer count"):
        pipeline.commit(work)


def test_single_partitions_stay_single(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    """What is not given is as the runs have it, also after an empty batch that only acknowledges."""
    pipeline.parameters = {"topics": {"orders": [0, 2]}}
    pipeline.whole_run()
    run("reset orders --start current --execute")
    answer = run("reset orders --start latest --output json").json
    assert [row["partition"] for row in answer["partitions"]] == ["orders-0", "orders-2"]


def test_a_live_group_is_seen_by_the_dry_run(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    with cluster.live_member("lake", "orders"):
        assert "AKO-203" in run("reset orders --start latest", status=1).err


# ── skip, clean ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_skipped_records_are_not_read_and_the_decision_is_recorded(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    produce(cluster, 1, 20)
    work = pipeline.work("one")
    ended = run("skip orders orders-1:4-5 --execute")
    assert "skips 2 offsets of orders-1, and has 18 offsets left to read" in ended.out
    ended = run("skip orders orders-1:6 --execute")
    assert "skips 1 offset of orders-1, and has 17 offsets left to read" in ended.out
    assert "clear its run from the resolve task on, with Downstream: run dag/one/resolve" in ended.err
    pipeline.drive(work)
    with pytest.raises(PlanReplaced):
        pipeline.commit(work)
    again = pipeline.work("one")
    assert sum(s.size for s in again.body.skips[tp(1)]) == 3
    pipeline.drive(again)
    assert pipeline.commit(again).figures["skipped"] == 3
    assert "no unfinished batch" in run("skip orders orders-1:4", status=1).err


@pytest.mark.parametrize(
    "records", ["orders-1", "orders-1:x", "orders-1:4-", "orders-1:6-4", "orders-1:-4", "orders:4-5-6"]
)
def test_records_that_are_none_are_a_wrong_request(pipeline: Pipeline, run: Run, records: str) -> None:
    pipeline.whole_run()
    assert "PARTITION:OFFSET[-OFFSET]" in run(f"skip orders {records}", status=2).err


def test_clean_keeps_headers_and_the_last_two_commits(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    for _ in range(4):
        produce(cluster, 0, 10)
        pipeline.whole_run()
    cluster.now_ms += 100 * 24 * HOUR
    before = objects(pipeline)
    assert run("clean orders --older-than 90d --output json").json["batches"] == [1, 2]
    assert objects(pipeline) == before
    assert run("clean orders --older-than 90d --execute --output json").json["batches"] == [1, 2]
    assert "It was cleaned: only its headers are left" in run("show orders --batch 2").out
    assert "The offsets of 2 batches were removed" in run("show orders --offset orders-0:5").err
    assert "Of 2 batches only totals are left" in run("audit orders").out
    assert run("audit orders --output json").json["days"][0]["rows"] == 40
    assert "give hours, days or weeks" in run("clean orders --older-than 90", status=2).err


def test_a_batch_that_is_being_reprocessed_is_not_cleaned(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    for name in "abcd":
        produce(cluster, 0, 10)
        pipeline.whole_run(name)
    pipeline.drive(pipeline.work("a"))
    cluster.now_ms += 100 * 24 * HOUR
    assert run("clean orders --older-than 90d --output json").json["batches"] == [2]


def test_a_store_far_away_is_cleaned_alike(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By several threads; of batch 2 the report is gone, so it does not verify."""
    for _ in range(8):
        produce(cluster, 0, 10)
        pipeline.whole_run()
    cluster.now_ms += 100 * 24 * HOUR
    (report,) = (name for name in objects(pipeline) if "/0000000002/" in name and name.endswith(".report.json"))
    pipeline.store.delete(report)
    monkeypatch.setattr(pipeline.store, "is_remote", True)
    assert run("clean orders --older-than 90d --execute --output json").json["batches"] == [1, 3, 4, 5, 6]
