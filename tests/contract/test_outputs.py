"""Whose an output is: resolve claims it, after its plan. The work store alone decides it: in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, OutputTaken
from airflow_kafka_offsets.stores.outputs import claim_output, owner_of, release_output
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, entries
from tests.contract.troubles import EventfulStore, produce

LAKE = "lake/orders"
WINDOW: dict[str, Any] = {
    "startup_mode": "timestamp",
    "startup_timestamp": NOW_MS - 3_600_000,
    "bounded_mode": "timestamp",
    "bounded_timestamp": NOW_MS + 1,
}


@pytest.fixture
def other(in_memory: Pipeline) -> Pipeline:
    return replace(in_memory, pipeline_id="other", group=f"{in_memory.group}-other")


def test_two_pipelines_do_not_write_one_output(in_memory: Pipeline, other: Pipeline) -> None:
    in_memory.run("one", output_name=LAKE)
    with pytest.raises(OutputTaken) as refused:
        other.resolve("two", output_name=LAKE)
    assert (refused.value.output, refused.value.owner) == (LAKE, f"pipeline '{CHECKPOINT}'")
    assert "kafka-offsets release-output" in str(refused.value)
    assert other.resolve("two", output_name="lake/other").said


def test_a_pipeline_keeps_its_output_from_run_to_run(in_memory: Pipeline, memory: AnyCluster) -> None:
    for number in range(3):
        in_memory.run(f"run-{number}", output_name=LAKE)
        produce(memory, in_memory)
    assert in_memory.store.list("outputs/lake%2Forders") == ["1.json"]


@pytest.mark.parametrize("same", [f"{LAKE}/", f" {LAKE}"])
def test_an_output_that_is_written_otherwise_is_the_same(in_memory: Pipeline, other: Pipeline, same: str) -> None:
    in_memory.resolve("one", output_name=LAKE)
    with pytest.raises(OutputTaken):
        other.resolve("two", output_name=same)


@pytest.mark.parametrize("first", ["the log", "a window", "a window by offsets"])
def test_the_log_and_each_kind_of_window_of_one_pipeline_have_outputs_of_their_own(
    in_memory: Pipeline, first: str
) -> None:
    """Records could be there under two keys."""
    ends = {str(number): 1 for number in range(3)}
    offsets = {
        "specific_offsets": {in_memory.topic: dict.fromkeys(ends, 0)},
        "bounded_offsets": {in_memory.topic: ends},
    }
    modes = {"startup_mode": "specific-offsets", "bounded_mode": "specific-offsets", "run_type": "manual"}
    kinds: dict[str, dict[str, Any]] = {"the log": {}, "a window": WINDOW, "a window by offsets": modes | offsets}
    in_memory.run("one", output_name=LAKE, **kinds.pop(first))
    for name, second in kinds.items():
        with pytest.raises(OutputTaken):
            in_memory.resolve(name, output_name=LAKE, **second)


def test_a_released_output_is_free(in_memory: Pipeline, other: Pipeline) -> None:
    in_memory.run("one", output_name=LAKE)
    release_output(in_memory.store, LAKE)
    assert owner_of(in_memory.store, LAKE) is None
    other.run("two", output_name=LAKE)
    with pytest.raises(OutputTaken, match="belongs to pipeline 'other'"):
        in_memory.resolve("one", output_name=LAKE)


def test_of_two_that_claim_at_the_same_moment_one_has_it(in_memory: Pipeline, other: Pipeline) -> None:
    store = EventfulStore(in_memory.store, "outputs/", lambda: other.resolve("two", output_name=LAKE))
    with pytest.raises(OutputTaken, match="belongs to pipeline 'other'"):
        replace(in_memory, store=store).resolve("one", output_name=LAKE)


def test_a_run_that_is_refused_may_take_another_output(in_memory: Pipeline, other: Pipeline) -> None:
    """The batch was planned for the first one, and nothing of it is begun."""
    in_memory.run("one", output_name=LAKE)
    with pytest.raises(OutputTaken):
        other.resolve("two", output_name=LAKE)
    run = other.resolve("two", output_name="lake/other")
    assert run.plan.output == "lake/other"
    run.done()
    assert entries(run.batch)[-1] == "commit"


def test_a_batch_that_is_begun_stays_with_its_output(in_memory: Pipeline) -> None:
    """Half of its rows may be there."""
    in_memory.resolve("one", output_name=LAKE).job().begin()
    assert in_memory.resolve("two", output_name="lake/new").plan.output == LAKE


def test_a_redo_claims_what_its_plan_names(in_memory: Pipeline, other: Pipeline) -> None:
    in_memory.run("one", output_name=LAKE)
    release_output(in_memory.store, LAKE)
    claim_output(in_memory.store, LAKE, "other", "log")
    with pytest.raises(OutputTaken):
        in_memory.resolve("one", output_name=LAKE)


def test_a_window_that_is_written_again_claims_what_its_plan_names(in_memory: Pipeline) -> None:
    in_memory.run("one", output_name=LAKE, **WINDOW)
    release_output(in_memory.store, LAKE)
    claim_output(in_memory.store, LAKE, "other", "log")
    with pytest.raises(OutputTaken):
        in_memory.resolve("one", output_name=LAKE, **WINDOW)


def test_without_a_name_nothing_is_claimed(in_memory: Pipeline) -> None:
    in_memory.run("one")
    assert in_memory.store.list("outputs") == []


@pytest.mark.parametrize("name", ["", "  ", 7])
def test_what_is_no_name_is_refused(in_memory: Pipeline, name: Any) -> None:
    with pytest.raises(InvalidRequest, match="output_name"):
        in_memory.resolve("one", output_name=name)
