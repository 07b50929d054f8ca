"""What a batch's entries say, and what a run does next."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import (
    Attempt,
    Batch,
    Before,
    BodyName,
    Commit,
    Entry,
    Plan,
    Step,
    Topic,
    digits_of,
    entry_from_dict,
    entry_to_dict,
    new_key,
    next_step,
)
from airflow_kafka_offsets.parameters import MOST_SHARDS
from airflow_kafka_offsets.store.objects import decode, encode

A, B = (RunKey("dag", run, "orders") for run in "ab")


def plan(by: RunKey = A, **more: object) -> Plan:
    fields = {
        "pipeline": "orders", "number": 7, "key": new_key(7, None, "0123456789ab"), "plan_id": "1f", "by": by,
        "at_ms": 1, "asked": "topics orders", "kind": "sequence", "identity": 1, "log": "2e",
        "isolation_level": "read_committed", "require_report": True,
        "cluster_id": "c", "topics": {"orders": Topic("id", 3)}, "offsets": 5, "partitions": 1,
        "ranges": BodyName("1-aa.ranges.json", "00"),
    }  # fmt: skip
    return Plan(**{**fields, **more})  # type: ignore[arg-type]


def commit(by: RunKey, output: str | None = "delta:/a") -> Commit:
    return Commit(by=by, at_ms=3, plan_id="1f", output=output)


@pytest.mark.parametrize(
    ("entries", "is_bound", "running", "step"),
    [
        ((), False, "", "plan next"),
        ((plan(B), commit(B)), False, "", "plan next"),
        ((plan(A),), True, "a", "do"),
        ((plan(B),), False, "", "do"),
        ((plan(B),), False, "b", "wait"),
        ((plan(B), plan(A)), False, "b", "do"),
        ((plan(A), plan(B)), True, "b", "wait"),
        ((plan(A), commit(A)), True, "", "do again"),
        ((plan(A), commit(A), plan(A)), True, "", "do again"),
        ((plan(A), plan(B), commit(B)), True, "b", "leave"),
    ],
)
def test_a_run_does_one_thing_with_a_batch(
    entries: tuple[Entry, ...], is_bound: bool, running: str, step: Step
) -> None:
    batch = Batch(7, entries) if entries else None
    assert next_step(A, batch, is_bound=is_bound, is_running=lambda run: run.run_id == running) == step


def test_the_current_plan_is_the_last_one_and_its_entry_counts_from_one() -> None:
    batch = Batch(7, (plan(A), commit(A), plan(B, plan_id="2f"), commit(B)))
    assert (batch.plan.plan_id, batch.plan_entry, batch.first_plan.plan_id) == ("2f", 3, "1f")


def test_a_plan_reopens_a_committed_batch() -> None:
    closed, reopened = Batch(7, (plan(), commit(A))), Batch(7, (plan(), commit(A), plan()))
    assert (closed.is_closed, reopened.is_closed, reopened.is_committed) == (True, False, True)


def test_a_batch_has_records_if_one_of_its_plans_had_some() -> None:
    assert Batch(7, (plan(), plan(offsets=0))).has_records
    assert not Batch(7, (plan(offsets=0),)).has_records


def test_the_output_is_the_last_commits_else_the_plans() -> None:
    assert Batch(7, (plan(output="delta:/b"),)).output == "delta:/b"
    assert Batch(7, (plan(output="delta:/b"), commit(A))).output == "delta:/a"


def test_a_batch_whose_body_is_removed_is_cleaned() -> None:
    assert Batch(7, (plan(),)).is_cleaned
    assert not Batch(7, (plan(),), (Attempt(1, "a", True),), frozenset({"1-aa.ranges.json"})).is_cleaned


BEFORE = Before("0000000006-0123456789ab", 2, BodyName("2-aa.ranges.json", "00"))


@pytest.mark.parametrize(
    "entry", [plan(before=BEFORE), plan(kind="window", window=(1, 2), adopted={"x": "k"}, bases=(0, 5)), commit(B)]
)
def test_an_entry_is_read_back_as_it_was_written(entry: Entry) -> None:
    assert entry_from_dict(decode(encode(entry_to_dict(entry)))) == entry


def test_keys_compare_as_text_and_have_at_most_32_characters() -> None:
    assert new_key(9, None, "ffffffffffff") < new_key(10, None, "000000000000")
    assert digits_of(new_key(10, (0, 4), "0123456789ab")) == 10
    assert len(new_key(10**9, (MOST_SHARDS - 1, MOST_SHARDS), "0123456789ab")) == 32
    assert digits_of("somebody's text") == 0
