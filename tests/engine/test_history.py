"""What the command line and the page show of a pipeline, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.engine import history
from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.plan.body import PlanBody
from airflow_kafka_offsets.store.objects import create_object, safe_name
from airflow_kafka_offsets.times import iso
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, produce, tp

NOTHING = {"again": 0, "hidden": 0, "lost": 0, "skipped": 0}


@pytest.fixture
def filled(cluster: InMemoryCluster, pipeline: Pipeline) -> Pipeline:
    for partition in range(3):
        produce(cluster, partition, 10)
    return pipeline


def states(pipeline: Pipeline) -> list[str]:
    return [history.state_of(pipeline.log.existing(number)) for number in (1,)]


def test_a_batch_has_one_state_after_the_other(filled: Pipeline) -> None:
    work = filled.work("one")
    assert states(filled) == ["planned"]
    attempt = filled.begin(work)
    assert states(filled) == ["begun"]
    filled.report(work, attempt)
    assert states(filled) == ["reported"]
    filled.begin(work)
    assert states(filled) == ["begun"]
    filled.drive(work)
    filled.commit(work)
    assert states(filled) == ["committed"]
    filled.work("one")
    assert states(filled) == ["being rewritten"]


def test_a_batch_is_one_row(cluster: InMemoryCluster, filled: Pipeline) -> None:
    at = iso(cluster.now_ms)
    work = filled.work("one")
    planned = history.batch_row(filled.log.existing(1))
    key = work.batch.plan.key
    expected = {
        "batch": 1, "key": key, "kind": "sequence", "state": "planned", "at": at, "window": None, "offsets": 30,
        "partitions": 3, "rows": None, "bad": None, "filtered": None, "given_up": NOTHING,
        "output": "delta:/lake/orders", "snapshot": None, "proof": None, "identity": 1,
        "owner": str(work.batch.plan.by), "attempts": 0, "is_cleaned": False,
    }  # fmt: skip
    assert planned == expected
    filled.drive(work)
    filled.commit(work)
    done = {"state": "committed", "rows": 30, "bad": 0, "filtered": 0, "snapshot": "7", "proof": "receipt"}
    committed = history.batch_row(filled.log.existing(1))
    assert committed == {**expected, **done, "at": committed["at"], "attempts": 1}


def test_a_window_is_shown_as_two_times(cluster: InMemoryCluster, filled: Pipeline) -> None:
    end = cluster.now_ms
    filled.resolve(want=filled.window(end - 3_600_000, end))
    assert history.batch_row(filled.log.existing(1))["window"] == [iso(end - 3_600_000), iso(end)]


def test_an_entry_says_what_it_plans_or_commits(filled: Pipeline) -> None:
    filled.work("one")
    work = filled.act("two", after=1, skip=["orders-1:4-6"])
    assert isinstance(work, ResolvedBatch)
    filled.drive(work)
    filled.commit(work)
    batch = filled.log.existing(1)
    first, second, last = rows = history.entry_rows(batch)
    assert [(row["entry"], row["kind"]) for row in rows] == [(1, "plan"), (2, "plan"), (3, "commit")]
    assert [(row["at"], row["by"]) for row in rows] == [(iso(entry.at_ms), str(entry.by)) for entry in batch.entries]
    assert first["details"] == {"offsets": 30, **NOTHING, "identity": 1}
    assert second["details"] == {"offsets": 27, **NOTHING, "skipped": 3, "identity": 2}
    assert last["details"] == {"rows": 27, "bad": 0, "filtered": 0, "proof": "receipt"}
    healed = replace(batch, entries=(replace(batch.plan, from_outputs=True),))
    assert history.entry_rows(healed)[0]["details"]["from_outputs"] is True


def test_identities_say_who_decided_what_and_why(cluster: InMemoryCluster, filled: Pipeline) -> None:
    assert history.identity_rows(filled.log) == []
    filled.whole_run("one")
    produce(cluster, 1, 1)
    filled.act("two", after=1, reason="bad producer", skip=["orders-1:10"])
    first, second = history.identity_rows(filled.log)
    assert (first["identity"], first["user"], first["reason"], first["act"]) == (1, first["user"], None, None)
    assert (second["identity"], second["user"], second["reason"]) == (2, "maria", "bad producer")
    assert second["act"] is not None
    assert second["act"]["skip"] == ["orders-1:10"]
    assert (second["cluster"], second["output"]) == ("memory", "delta:/lake/orders")
    assert second["at"] == iso(cluster.now_ms)
    assert "two" in second["by"]


def test_each_partition_says_what_was_planned_and_counted(cluster: InMemoryCluster, filled: Pipeline) -> None:
    filled.whole_run("one")
    produce(cluster, 1, 5)
    filled.act("two", after=1, skip=["orders-1:11-12"])
    batch = filled.log.existing(2)
    plan = filled.log.body(batch)
    before = history.range_rows(filled.log, batch, plan)
    assert before[1] == {
        "partition": f"{TOPIC}-1", "before": 10, "start": 10, "end": 15, "offsets": 3, "skipped": 2,
    }  # fmt: skip
    assert [row["skipped"] for row in before] == [None, 2, None]
    done = filled.work("two")
    filled.begin(done)
    filled.drive(done)
    counted = history.range_rows(filled.log, filled.log.existing(2), plan)
    assert {**counted[1], "rows": 3, "bad": 0, "filtered": 0} == counted[1]
    assert before[1].items() <= counted[1].items()
    filled.begin(done)
    last = history.range_rows(filled.log, filled.log.existing(2), plan)
    assert last[1] == before[1], "the last attempt has not reported"


def test_an_attempt_has_begun_or_reported(filled: Pipeline) -> None:
    work = filled.work()
    filled.begin(work)
    filled.drive(work)
    rows = [{"attempt": 1, "state": "begun"}, {"attempt": 2, "state": "reported"}]
    assert history.attempt_rows(filled.log.existing(1)) == rows


def test_a_batch_that_is_cleaned_has_no_counts_by_partition(filled: Pipeline) -> None:
    work = filled.work()
    filled.drive(work)
    assert history.range_rows(filled.log, filled.log.existing(1), PlanBody({}, {}, {}, ())) == []


def test_pipelines_are_listed_by_name_with_their_shards_and_what_is_open(cluster: InMemoryCluster) -> None:
    long = "a pipeline with a name that is much longer than a folder of a store may be ä" * 2
    assert len(safe_name(long)) > 150
    one = Pipeline(cluster, {"pipeline_id": "two words", "group_id": None})
    shard_of_c = {"pipeline_id": "c", "group_id": None, "shard": (1, 2)}
    for parameters in ({"pipeline_id": long, "group_id": None}, {"pipeline_id": "b", "group_id": None}):
        Pipeline(cluster, parameters, store=one.store).whole_run("x")
    Pipeline(cluster, shard_of_c, store=one.store).resolve("x")
    produce(cluster, 0, 1)
    one.resolve("x")
    create_object(one.store, "no pipeline/notes.json", {"version": 1})
    found = [(p.log.pipeline_id, p.unfinished, p.damage) for p in history.pipelines(one.store)]
    assert found == sorted(
        [(long, 0, None), ("b", 0, None), ("c/0-of-2", 0, None), ("c/1-of-2", 0, None), ("two words", 1, None)]
    )


def test_a_decision_names_its_partition(cluster: InMemoryCluster, filled: Pipeline) -> None:
    filled.whole_run()
    produce(cluster, 1, 2)
    filled.act(after=1, skip=["orders-1:10"])
    body = filled.log.body(filled.log.existing(2))
    (row,) = [history.decision_row(decision) for decision in body.decisions]
    assert (row["partition"], row["start"], row["end"], row["kind"]) == (str(tp(1)), 10, 11, "skipped")
