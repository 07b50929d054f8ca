"""What a batch's entries say, and what a run does next."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.entries import (
    Attempt,
    Batch,
    BodyName,
    Claim,
    Commit,
    Entry,
    Plan,
    Step,
    Topic,
    entry_from_dict,
    entry_to_dict,
    new_key,
    next_step,
    number_of,
)
from airflow_kafka_offsets.store.objects import decode, encode

A, B = (Actor(RunKey("dag", run, "resolve")) for run in "ab")
PERSON = Actor(person="ada")


def plan(by: Actor = A, **more: object) -> Plan:
    fields = {
        "pipeline": "orders", "number": 7, "key": new_key(7, 0, "abcd"), "plan_id": "1f", "by": by, "at_ms": 1,
        "asked": "topics orders", "kind": "sequence", "isolation_level": "read_committed", "require_report": True,
        "cluster_id": "c", "topics": {"orders": Topic("id", 3)}, "offsets": 5, "partitions": 1,
        "ranges": BodyName("1-aa.ranges.json", "00"),
    }  # fmt: skip
    return Plan(**{**fields, **more})  # type: ignore[arg-type]


def claim(by: Actor, after: int = 0, acknowledged: int = 0) -> Claim:
    return Claim(by=by, at_ms=2, after=after, acknowledged=acknowledged)


def commit(by: Actor, output: str | None = "files:/a") -> Commit:
    return Commit(by=by, at_ms=3, plan_id="1f", output=output)


@pytest.mark.parametrize(
    ("entries", "is_mine", "running", "step"),
    [
        ((), False, "", "plan next"),
        ((plan(B), commit(B)), False, "", "plan next"),
        ((plan(A),), True, "a", "do"),
        ((plan(B),), False, "", "do"),
        ((plan(B),), False, "b", "wait"),
        ((plan(B), claim(A)), False, "b", "do"),
        ((plan(A), claim(B)), True, "b", "wait"),
        ((plan(B), claim(PERSON)), False, "b", "do"),
        ((plan(A), commit(A)), True, "", "do again"),
        ((plan(A), commit(A), claim(A, 1)), True, "", "do again"),
        ((plan(A), claim(B), commit(B)), True, "b", "leave"),
    ],
)
def test_a_run_does_one_thing_with_a_batch(entries: tuple[Entry, ...], is_mine: bool, running: str, step: Step) -> None:
    batch = Batch(7, entries) if entries else None
    assert next_step(A, batch, is_mine=is_mine, is_running=lambda run: run.run_id == running) == step


def test_the_current_plan_is_the_last_one_and_its_entry_counts_from_one() -> None:
    batch = Batch(7, (plan(A), claim(B), plan(B, plan_id="2f"), claim(A)))
    assert (batch.plan.plan_id, batch.plan_entry, batch.first_plan.plan_id, batch.owner) == ("2f", 3, "1f", A)


def test_only_later_attempts_count_and_only_a_persons_entry_acknowledges() -> None:
    batch = Batch(7, (plan(PERSON, acknowledged=2), claim(A, after=4), claim(PERSON, 3, 3)))
    assert (batch.after, batch.acknowledged) == (4, 3)


def test_a_claim_reopens_a_committed_batch() -> None:
    closed, reopened = Batch(7, (plan(), commit(A))), Batch(7, (plan(), commit(A), claim(A, 1)))
    assert (closed.is_closed, reopened.is_closed, reopened.is_committed) == (True, False, True)


def test_the_output_is_the_last_commits_else_the_one_that_the_plan_expects() -> None:
    assert Batch(7, (plan(output="files:/b"),)).output == "files:/b"
    assert Batch(7, (plan(output="files:/b"), commit(A))).output == "files:/a"


def test_a_batch_whose_body_is_removed_is_cleaned() -> None:
    assert Batch(7, (plan(),)).is_cleaned
    assert not Batch(7, (plan(),), (Attempt(1, "a", True),), frozenset({"1-aa.ranges.json"})).is_cleaned


@pytest.mark.parametrize("entry", [plan(), plan(kind="window", window=(1, 2)), claim(PERSON, 3, 3), commit(B)])
def test_an_entry_is_read_back_as_it_was_written(entry: Entry) -> None:
    assert entry_from_dict(decode(encode(entry_to_dict(entry)))) == entry


def test_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2 is not known"):
        entry_from_dict({**entry_to_dict(plan()), "version": 2})


def test_keys_compare_as_text_and_lead_to_their_number() -> None:
    assert new_key(9, 0, "zzzz") < new_key(10, 0, "aaaa")
    assert number_of(new_key(10, 0, "aaaa")) == 10
    assert number_of("somebody's text") == 0
