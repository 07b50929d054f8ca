"""``plan``: what the next run would read, and what an act would change. Nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, GroupMoved, KafkaOffsetsError, OutputChanged
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cli.conftest import Run
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, printed_confs, produce, ranges_of, tp


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def everything(pipeline: Pipeline) -> tuple[dict[str, bytes], object]:
    """What is in the checkpoint location, and in the groups."""
    assert isinstance(pipeline.store, MemoryStore)
    return dict(pipeline.store.objects), {group: dict(offsets) for group, offsets in pipeline.cluster.groups.items()}


def conf_of(after: int, **acts: Any) -> str:
    return json.dumps({"kafka_offsets": {"pipeline": "orders", "after": after, "reason": "why", **acts}})


def test_the_first_run(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    answer = run("plan orders --topics orders --group-id lake --start earliest --output json").json
    assert (answer["batch"], answer["is_new"], answer["offsets"], answer["identity"]) == (1, True, 10, 1)
    assert columns(answer["partitions"], "partition", "start", "end") == [
        ("orders-0", 0, 10), ("orders-1", 0, 0), ("orders-2", 0, 0)]  # fmt: skip
    assert everything(pipeline) == ({}, {})


def test_it_is_what_the_next_run_does(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 1, 7)
    cluster.add_partitions("orders", 1)
    answer = run("plan orders --max-records 4 --output json").json
    work = pipeline.work(max_records=4)
    assert columns(answer["partitions"], "partition", "start", "end") == [
        (str(tp), planned.start, planned.end) for tp, planned in work.body.ranges.items()
    ]
    assert answer["changes"] == ["orders-3: new → 0"]


def test_an_unfinished_batch_names_its_run(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.begin(pipeline.work("one"))
    answer = run("plan orders")
    assert "Batch 1 is begun, by run dag/one/orders. The next run reads it, with the same offsets: 10" in answer.out


def test_a_loss_is_refused_as_by_the_run_and_the_printed_conf_is_tried(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    produce(cluster, 0, 5)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    cluster.delete_records(tp(0), 8)
    refused = run("plan orders", status=1)
    with pytest.raises(DataLoss) as by_run:
        pipeline.resolve()
    assert [{"kafka_offsets": c} for c in printed_confs(by_run.value)] == [
        json.loads(line) for line in refused.err.splitlines() if line.startswith('{"kafka_offsets"')
    ]
    (line,) = (line for line in refused.err.splitlines() if line.startswith("or: "))
    assert line.startswith("or: airflow dags trigger dag --conf '")  # the DAG that the pipeline has
    ended = run("plan orders --on-data-loss advance")
    assert "offsets from 5 to 8 lost (on_data_loss=advance)" in ended.out


def test_a_batch_without_records_names_no_key(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    """The run makes another one."""
    produce(cluster, 0, 5)
    pipeline.whole_run()
    produce(cluster, 0, 4)
    cluster.delete_records(tp(0), 9)
    ended = run("plan orders --on-data-loss advance")
    assert ended.out == (
        "The next run: Batch 2 of pipeline orders: 0 offsets of 0 partitions, 4 lost. "
        "It is committed without a Spark job.\n"
    )


def test_a_window(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    hour = cluster.now_ms - 3 * HOUR
    produce(cluster, 0, 4, age_s=2 * 3600 + 5)
    pipeline.whole_run(want=pipeline.window(hour - HOUR, hour))
    words = f"plan orders --start timestamp:{hour} --end timestamp:{hour + HOUR}"
    assert "plans batch 2: 4 offsets of 1 partition" in run(words).out
    assert "give --start timestamp:… and --end timestamp:…" in run("plan orders", status=2).err
    conf = json.dumps({"kafka_offsets": {"pipeline": "orders", "window": [hour, hour + HOUR]}})
    assert run("plan orders --conf", conf).out == run(words).out


# ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def moved_group(pipeline: Pipeline) -> None:
    pipeline.cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(15)})


def moved_output(pipeline: Pipeline) -> None:
    pipeline.output = "delta:/lake/other"


def deleted_records(pipeline: Pipeline) -> None:
    pipeline.cluster.delete_records(tp(0), 13)


@pytest.mark.parametrize(
    ("change", "error"), [(moved_group, GroupMoved), (moved_output, OutputChanged), (deleted_records, DataLoss)]
)
def test_each_printed_conf_is_tried_as_it_stands_and_says_what_the_run_then_does(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, change: Any, error: type[KafkaOffsetsError]
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    change(pipeline)
    with pytest.raises(error) as refused:
        pipeline.resolve()
    for conf in printed_confs(refused.value):
        before = everything(pipeline)
        tried = run("plan orders --output json --conf", json.dumps({"kafka_offsets": conf})).json
        assert everything(pipeline) == before
        assert tried["identity"] == 2
    work = pipeline.run_printed(refused.value)
    first = run("plan orders --output json").json  # the unfinished batch, as the first printed conf made it
    assert first["batch"] == work.batch.number  # type: ignore[union-attr]


def test_a_reset_shows_before_and_after_and_what_is_skipped(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    produce(cluster, 1, 3)
    act = {"reset": {"start": {"orders-0": 15}}}
    before = everything(pipeline)
    tried = run("plan orders --conf", conf_of(1, **act))
    assert "orders-0: 10 → 15, skipped 5 (reset, identity 2)" in tried.out
    assert everything(pipeline) == before
    rows = run("plan orders --output json --conf", conf_of(1, **act)).json["partitions"]
    done = pipeline.act(after=1, **act)
    assert {int(row["partition"][-1]): (row["start"], row["end"]) for row in rows} == ranges_of(done)  # type: ignore[arg-type]


def test_a_skip_of_an_unfinished_batch(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 1, 20)
    pipeline.work("one")
    tried = run("plan orders --output json --conf", conf_of(1, skip=["orders-1:4-5"])).json
    assert (tried["offsets"], tried["given_up"]["skipped"], tried["is_new"]) == (18, 2, False)


@pytest.mark.parametrize(
    ("conf", "status", "message"),
    [
        (conf_of(0, reset={"start": "latest"}), 1, "AKO-306 ActStale"),
        (conf_of(1, reset={"start": "earliest"}), 1, "would be read again"),
        (conf_of(1, reset={"begin": "earliest"}), 2, "reset"),
        (conf_of(1, acknowledge={"cluster": "another"}), 1, "cluster 'another' is named"),
        (conf_of(1, resett={"start": "latest"}), 2, "has 'resett'"),
        (conf_of(1, skip=["orders-9:3"]), 1, "orders-9 is not subscribed to"),
        (conf_of(1, skip=["orders-1:3"]).replace('"orders", "after"', '"others", "after"'), 2, "this DAG has 'orders'"),
        ('{"pipeline": "orders"}', 2, "give it as the error prints it"),
    ],
)
def test_an_act_that_a_run_refuses_is_refused_alike(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, conf: str, status: int, message: str
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    assert message in run("plan orders --conf", conf, status=status).err


def test_single_partitions_stay_single(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    """What is not given is as the runs have it."""
    pipeline.parameters = {"topics": {"orders": [0, 2]}}
    produce(cluster, 0, 1)
    pipeline.whole_run()
    produce(cluster, 1, 5)
    produce(cluster, 2, 5)
    assert columns(run("plan orders --output json").json["partitions"], "partition", "end") == [
        ("orders-0", 1), ("orders-2", 5)]  # fmt: skip


def test_a_live_group_is_seen(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 4)
    cluster.delete_records(tp(0), 14)
    with cluster.live_member("lake", "orders"):
        assert "AKO-203" in run("plan orders --on-data-loss advance", status=1).err
