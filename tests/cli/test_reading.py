"""``lag``, ``list``, ``show``, ``clean`` and ``explain``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.errors import KafkaOffsetsError, NotAuthorized
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.spark.errors import BatchError
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cli.conftest import Run
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, conf_of, produce, tp, whole_counts


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


# ── lag, list ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lag_counts_what_is_there_and_not_read(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 5, age_s=90)
    produce(cluster, 1, 6, age_s=30)
    cluster.delete_records(tp(1), 2)
    cluster.add_partitions("orders", 1)
    produce(cluster, 3, 2, age_s=60)
    answer = run("lag orders --output json").json
    assert (answer["unread"], answer["age_s"]) == (11, 90)
    assert columns(answer["partitions"], "partition", "position", "end", "unread", "age_s", "note") == [
        ("orders-0", 10, 15, 5, 90, ""),
        ("orders-1", 0, 6, 4, 30, "records are gone"),
        ("orders-2", 0, 0, 0, None, ""),
        ("orders-3", None, 2, 2, 60, "no position"),
    ]


def test_lag_counts_what_a_run_would_read_and_says_what_waits_for_the_end_of_a_transaction(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    pipeline.connection = {"isolation.level": "read_committed"}
    pipeline.whole_run()
    produce(cluster, 0, 10)
    pipeline.whole_run(exclude=["orders-2"])
    produce(cluster, 2, 7)
    produce(cluster, 1, 1)
    cluster.begin_transaction().produce(tp(1), [cluster.now_ms] * 6)
    answer = run("lag orders --output json").json
    assert (answer["unread"], answer["in_transaction"]) == (1, 6)
    assert columns(answer["partitions"], "partition", "unread", "in_transaction") == [
        ("orders-0", 0, 0),
        ("orders-1", 1, 6),
    ]
    assert "1 unread record in 2 partitions" in (text := run("lag orders").out)
    assert "6 records behind an open transaction." in text


def test_a_topic_that_is_no_more_is_named(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.delete_topic("orders")
    lags = columns(run("lag orders --output json").json["partitions"], "partition", "position", "end", "note")
    assert lags == [(f"orders-{p}", 10 if p == 0 else 0, None, "topic does not exist") for p in range(3)]
    assert "orders-0: the topic was deleted" in run("plan orders", status=1).err


def test_lag_of_a_group_counts_a_partition_without_an_offset(cluster: InMemoryCluster, run: Run) -> None:
    produce(cluster, 0, 10)
    produce(cluster, 1, 3)
    cluster.commit_as_somebody_else("others", {tp(0): CommittedOffset(7), tp(2): CommittedOffset(4)})
    answer = run("lag --group-id others --topics orders --output json").json
    assert columns(answer["partitions"], "unread", "note") == [(3, ""), (3, "no position"), (0, "past the end")]


def test_without_the_right_to_read_there_are_no_ages(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> dict[TopicPartition, int]:
        raise NotAuthorized("Cannot read", "TOPIC_AUTHORIZATION_FAILED", "Give it Read.")

    pipeline.whole_run()
    produce(cluster, 0, 5)
    monkeypatch.setattr(cluster, "first_times", refuse)
    answer = run("lag orders --output json").json
    assert (answer["unread"], answer["age_s"]) == (5, None)


def test_lag_of_a_shard_leaves_the_other_shards_out(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    pipeline.parameters = {"shard": (0, 2)}
    pipeline.whole_run()
    cluster.add_partitions("orders", 3)
    for partition in range(6):
        produce(cluster, partition, 1)
    answer = run("lag orders/0-of-2 --output json").json
    read = {str(tp) for tp in pipeline.work().body.ranges}
    assert len(read) == 3
    assert {row["partition"] for row in answer["partitions"]} == read


def test_a_pipeline_by_window_has_no_lag(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 1, age_s=5400)
    pipeline.whole_run(want=pipeline.window(cluster.now_ms - HOUR, cluster.now_ms))
    assert "reads by window" in run("lag orders", status=2).err
    pipeline.work(want=pipeline.window(cluster.now_ms - 2 * HOUR, cluster.now_ms - HOUR))
    pipeline.whole_run(want=pipeline.window(cluster.now_ms - 3 * HOUR, cluster.now_ms - 2 * HOUR))
    row = run("list --bootstrap-servers memory --output json").json["pipelines"][0]
    assert (row["kind"], row["state"], row["unfinished"], row["unread"]) == ("window", "committed", 1, None)


def test_list_names_pipelines_as_their_dags_do(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 4)
    names = ["Bestellungen für “Süd”", "orders", "x" * 200]
    pipeline.remembers = False  # each name is another task
    for name in names:
        pipeline.whole_run(pipeline_id=name, group_id=None)
    pipeline.whole_run(pipeline_id="sharded", group_id=None, shard=(1, 2))
    produce(cluster, 0, 2)
    rows = run("list --bootstrap-servers memory --output json").json["pipelines"]
    shards = [("sharded/0-of-2",), ("sharded/1-of-2",)]
    assert columns(rows, "pipeline") == [(names[0],), ("orders",), *shards, (names[2],)]
    assert columns(rows[:2], "state", "batch", "unread") == [("committed", 1, 2)] * 2
    assert rows[2]["state"] == "no batch"
    assert "unread" not in run("list").out


def test_list_shows_the_others_beside_a_damaged_pipeline(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    pipeline.whole_run()
    pipeline.whole_run(pipeline_id="payments", group_id=None)
    assert isinstance(pipeline.store, MemoryStore)
    pipeline.store.objects["payments/batches/00000000/0000000001/1.json"] = b"{}"
    ended = run("list --output json", status=3)
    assert columns(ended.json["pipelines"], "pipeline", "state") == [("orders", "committed"), ("payments", "damaged")]
    assert "AKO-504" in ended.err


# ── show ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_show_goes_from_the_newest_batch_back(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    for _ in range(3):
        produce(cluster, 0, 10)
        pipeline.whole_run()
    produce(cluster, 0, 1)
    pipeline.begin(pipeline.work("four"))
    answer = run("show orders --last 3 --output json").json
    assert columns(answer["batches"], "batch", "state", "offsets", "rows") == [
        (4, "begun", 1, None),
        (3, "committed", 10, 10),
        (2, "committed", 10, 10),
    ]
    assert columns(answer["identities"], "identity", "by", "act") == [(1, "dag/run1/orders", None)]
    assert answer["batches"][0]["owner"] == "dag/four/orders"


def test_show_batch_has_entries_attempts_ranges_and_decisions(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    produce(cluster, 0, 10)
    pipeline.begin(pipeline.work("one"))
    cluster.delete_records(tp(0), 3)
    work = pipeline.work("two", on_data_loss="advance")
    pipeline.drive(work)
    pipeline.commit(work)
    answer = run("show orders --batch 1 --output json").json
    assert columns(answer["entries"], "kind", "by") == [
        ("plan", "dag/one/orders"),
        ("plan", "dag/two/orders"),
        ("commit", "dag/two/orders"),
    ]
    assert answer["entries"][2]["details"] == {"rows": 7, "bad": 0, "filtered": 0, "proof": "receipt"}
    assert columns(answer["attempts"], "attempt", "state") == [(1, "begun"), (2, "reported")]
    assert columns(answer["ranges"], "before", "start", "end", "rows")[0] == (0, 3, 10, 7)
    assert answer["decisions"] == [
        {"partition": "orders-0", "start": 0, "end": 3, "kind": "lost", "by": "on_data_loss=advance"}
    ]
    assert run("show orders --batch", answer["key"]).out == run("show orders --batch 1").out
    assert "has no such batch" in run("show orders --batch 2", status=2).err


def test_show_has_who_decided_what_when_and_why(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.act("repair", after=1, reason="they are broken", reset={"start": "latest"}, skip=["orders-0:3"])
    identity = run("show orders --output json").json["identities"][1]
    assert (identity["by"], identity["user"], identity["reason"]) == ("dag/repair/orders", "maria", "they are broken")
    assert json.loads(identity["act"]) == {"reset": {"start": "latest"}, "skip": ["orders-0:3"]}
    assert "they are broken" in run("show orders").out


def test_show_lists_batches_with_bad_records_their_runs_and_whether_kafka_has_them(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    for name, bad in (("one", 1), ("two", 0), ("three", 2)):
        produce(cluster, 0, 10)
        work = pipeline.work(name)
        counts = whole_counts(work)
        counts[tp(0)] = counts[tp(0)]._replace(rows=10 - bad, bad=bad)
        pipeline.report(work, pipeline.begin(work), counts)
        pipeline.commit(work)
    assert columns(run("show orders --bad --output json").json["batches"], "batch", "bad", "owner") == [
        (3, 2, "dag/three/orders"), (1, 1, "dag/one/orders")]  # fmt: skip
    cluster.delete_records(tp(0), 5)
    rows = run("show orders --bad --bootstrap-servers memory --output json").json["batches"]
    assert columns(rows, "batch", "in_kafka") == [(3, "all there"), (1, "gone")]
    assert run(f"show orders --bad --since {cluster.now_ms + 1} --output json").json["batches"] == []
    assert "--since is 'then'" in run("show orders --bad --since then", status=2).err


def test_show_says_what_became_of_a_record(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    cluster.delete_records(tp(0), 13)
    pipeline.resolve(conf=conf_of(1, skip=["orders-0:15"]), on_data_loss="advance")

    def fates(offset: int) -> list[tuple[Any, ...]]:
        return columns(run(f"show orders --offset orders-0:{offset} --output json").json["batches"], "batch", "fate")

    assert fates(9) == [(1, "read")]
    assert fates(12) == [(2, "lost by on_data_loss=advance")]
    assert fates(15) == [(2, "skipped by skip")]
    assert fates(16) == [(2, "read")]
    assert "orders-0:9 is in batch 1 of pipeline orders." in run("show orders --offset orders-0:9").out
    assert "is in no batch of pipeline orders. The position is 10" in run("show orders --offset orders-0:99").out


# ── clean ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def objects(pipeline: Pipeline) -> set[str]:
    assert isinstance(pipeline.store, MemoryStore)
    return set(pipeline.store.objects)


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


# ── explain ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", ["AKO-202", "202", "groupmoved"])
def test_explain_prints_the_page_of_an_error(run: Run, code: str) -> None:
    assert run(f"explain {code}").out.startswith("# AKO-202 GroupMoved")


def test_explain_lists_every_error(run: Run) -> None:
    def below(error: type[KafkaOffsetsError]) -> set[str]:
        return {error.code}.union(*map(below, error.__subclasses__()))

    codes = below(KafkaOffsetsError) - {""} | {error.code for error in BatchError.__subclasses__()}
    assert {row["code"] for row in run("explain --output json").json["errors"]} == codes
    assert "kafka-offsets explain lists them" in run("explain nonsense", status=2).err
