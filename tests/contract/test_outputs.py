"""Whose an output is: resolve claims it, after its plan. The work store alone decides it: in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, LateAttempt, OutputTaken
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.output_claims import claim_output, owner_of, release_output
from airflow_kafka_offsets.plan.topic_outputs import of_topic
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, entries
from tests.contract.troubles import EventfulStore, Killed, die, produce

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
    assert other.resolve("two", output_name="lake/other").sentence


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
    assert run.plan.asked.output == "lake/other"
    run.done()
    assert entries(run.batch)[-1] == "commit"


# ── the output belongs to the batch ───────────────────────────────────────────────────────────────────────────────────

NEW = "lake/new"
ACCEPT = {"output_name": NEW, "output_changed": "accept"}


@pytest.mark.parametrize("more", [{}, {"re_plan": True}, {"restart": "w"}], ids=str)
def test_a_batch_that_is_begun_stays_with_its_output(
    in_memory: Pipeline, memory: AnyCluster, more: dict[str, Any]
) -> None:
    """Its rows may be there: a plan anew into another output would leave them beside their second copy."""
    first = in_memory.resolve("one", output_name=LAKE).spark()
    produce(memory, in_memory)
    with pytest.raises(InvalidRequest, match="put it back until this batch is committed") as refused:
        in_memory.resolve("two", output_name=NEW, **more)
    assert f"{first.batch_key}, is written to '{LAKE}'" in str(refused.value)
    assert in_memory.run("two", output_name=LAKE, **more).plan.asked.output == LAKE


def test_who_accepts_another_output_has_the_whole_batch_there_and_is_told_what_stays_behind(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    first = in_memory.resolve("one", output_name=LAKE).spark()
    run = in_memory.resolve("two", **ACCEPT)
    assert (run.batch_key, run.ranges, run.plan.asked.output) == (first.batch_key, first.ranges, NEW)
    assert f"Rows of {first.batch_key} stay behind in '{LAKE}'" in run.plan.warnings[-1]
    run.done()


def test_nobody_leaves_an_output_whose_records_are_gone(in_memory: Pipeline, memory: AnyCluster) -> None:
    in_memory.resolve("one", output_name=LAKE).spark()
    memory.delete_records("orders", 4)
    with pytest.raises(DataLoss, match="cannot leave 'lake/orders'"):
        in_memory.resolve("two", **ACCEPT)
    with pytest.raises(DataLoss, match="Leave out re_plan"):
        in_memory.resolve("two", **ACCEPT, re_plan=True, data_loss="advance")


def test_a_driver_that_begins_while_the_output_is_changed_keeps_the_batch_there(in_memory: Pipeline) -> None:
    first = in_memory.resolve("one", output_name=LAKE)
    moving = replace(in_memory, store=EventfulStore(in_memory.store, "/2.json", lambda: first.job().begin()))
    with pytest.raises(InvalidRequest, match="put it back"):
        moving.resolve("two", output_name=NEW)
    assert in_memory.newest.log.plan.plan_id == first.plan.plan_id
    in_memory.run("two", output_name=LAKE)


def test_so_it_does_if_the_run_that_changes_it_dies(in_memory: Pipeline) -> None:
    """Else its rows would be where no plan names them, beside those of the same key in the new output."""
    job = in_memory.resolve("one", output_name=LAKE).job()
    store = EventfulStore(EventfulStore(in_memory.store, "/2.json", job.begin), "/2.json", die, after=True)
    with pytest.raises(Killed):
        replace(in_memory, store=store).resolve("two", output_name=NEW)
    with pytest.raises(LateAttempt):
        job.write().report()
    with pytest.raises(InvalidRequest, match="put it back"):
        in_memory.resolve("two", output_name=NEW)
    in_memory.run("two", output_name=LAKE)


def test_so_it_does_where_the_batch_is_planned_anew_into_the_other_output(in_memory: Pipeline) -> None:
    first = in_memory.resolve("one", output_name=LAKE)
    moving = replace(in_memory, store=EventfulStore(in_memory.store, "/2.json", lambda: first.job().begin().write()))
    with pytest.raises(InvalidRequest, match="put it back"):
        moving.resolve("two", output_name=NEW, re_plan=True)
    assert in_memory.newest.log.plan.plan_id == first.plan.plan_id
    in_memory.run("two", output_name=LAKE, re_plan=True)


def test_a_path_that_a_template_gives_is_no_change(in_memory: Pipeline) -> None:
    """A sink of this package takes the plan's; a job of one's own is given only the run's own path."""
    first = in_memory.resolve("one", output_name=LAKE).spark()
    with pytest.raises(InvalidRequest, match=r"clear run dag/one/resolve"):
        in_memory.resolve("two", output_name=NEW, output_origin="templated output")
    run = in_memory.resolve("two", output_name=NEW, output_origin="templated sink")
    assert (run.plan, run.plan.asked.output) == (first.plan, LAKE)


@pytest.mark.parametrize("of", [{}, WINDOW], ids=["a batch", "a window"])
def test_what_is_committed_is_not_done_again_into_another_output(in_memory: Pipeline, of: dict[str, Any]) -> None:
    first = in_memory.run("one", output_name=LAKE, **of)
    for more in ({"output_name": NEW}, ACCEPT):
        with pytest.raises(InvalidRequest, match=f"{first.batch_key}, is committed in '{LAKE}'"):
            in_memory.resolve("one", **more, **of)
    with pytest.raises(InvalidRequest, match=r"clear run dag/one/resolve"):
        in_memory.resolve("one", output_name=NEW, output_origin="templated output", **of)
    again = in_memory.run("one", output_name=NEW, output_origin="templated sink", **of)
    assert (again.plan, again.splits) == (first.plan, first.splits)
    assert in_memory.run("one", **of).splits == first.splits


def test_a_batch_that_was_begun_in_an_output_of_no_name_stays_there_until_somebody_accepts_another(
    in_memory: Pipeline,
) -> None:
    """Where it was begun only its Spark jobs know; they refuse another output."""
    first = in_memory.resolve("one").spark()
    assert in_memory.resolve("one", output_name=NEW).plan == first.plan
    assert in_memory.resolve("one", **ACCEPT, output_origin="templated output").plan == first.plan
    run = in_memory.resolve("one", **ACCEPT)
    assert (run.batch_key, run.plan.asked.output) == (first.batch_key, NEW)
    assert f"Rows of {first.batch_key} stay behind where its jobs have written before." in run.plan.warnings[-1]
    run.spark().done()


def test_a_batch_of_a_job_that_does_not_tell_that_it_has_begun_stays_in_its_output(in_memory: Pipeline) -> None:
    """A job that is given offsets makes no record. Its rows may be there, whatever the log says."""
    first = in_memory.resolve("one", output_name=LAKE, jobs_tell=False)
    with pytest.raises(InvalidRequest, match="put it back until this batch is committed"):
        in_memory.resolve("two", output_name=NEW, jobs_tell=False)
    with pytest.raises(InvalidRequest, match=r"clear run dag/one/resolve"):
        in_memory.resolve("two", output_name=NEW, output_origin="templated output", jobs_tell=False)
    run = in_memory.resolve("two", **ACCEPT, jobs_tell=False)
    assert (run.batch_key, run.plan.asked.output) == (first.batch_key, NEW)
    assert f"Rows of {first.batch_key} stay behind in '{LAKE}'" in run.plan.warnings[-1]


def test_a_copied_dag_with_another_output_does_not_go_on_in_its_pipeline(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    in_memory.run(RunKey("orders", "one", "resolve"), output_name=LAKE)
    produce(memory, in_memory)
    copy = RunKey("copy_of_orders", "two", "resolve")
    with pytest.raises(InvalidRequest, match=r"copy_of_orders\.resolve names the output 'lake/new'"):
        in_memory.resolve(copy, output_name=NEW)
    run = in_memory.resolve(copy, **ACCEPT)
    assert (run.number, run.plan.asked.output) == (2, NEW)


def test_nor_does_it_take_a_batch_that_nobody_has_begun(in_memory: Pipeline) -> None:
    in_memory.resolve(RunKey("orders", "one", "resolve"), output_name=LAKE)
    with pytest.raises(InvalidRequest, match="would have its records in two outputs"):
        in_memory.resolve(RunKey("copy_of_orders", "two", "resolve"), output_name=NEW)


@pytest.mark.parametrize("is_committed", [True, False])
def test_nor_does_the_same_dag_where_it_may_be_that_of_a_copied_airflow(
    in_memory: Pipeline, memory: AnyCluster, is_committed: bool
) -> None:
    """Development took a batch, and production went on behind it: its own output lacked it, in green runs."""
    development = in_memory.resolve("by hand", output_name=NEW, nameless=True)
    if is_committed:
        development.done()
    produce(memory, in_memory)
    with pytest.raises(InvalidRequest, match=r"two outputs\. Set \[kafka_offsets\] instance, so that a copy"):
        in_memory.resolve("two", output_name=LAKE, nameless=True)
    run = in_memory.run("two", nameless=True, **{**ACCEPT, "output_name": LAKE})
    assert (run.number, run.plan.asked.output) == (2 if is_committed else 1, LAKE)
    produce(memory, in_memory)
    assert in_memory.run("three", output_name=LAKE, nameless=True).number == run.plan.batch.number + 1


def test_a_dag_that_changes_its_output_between_two_batches_says_so(in_memory: Pipeline, memory: AnyCluster) -> None:
    in_memory.run("one", output_name=LAKE)
    produce(memory, in_memory)
    run = in_memory.run("two", output_name=NEW)
    assert run.plan.warnings[-1] == f"The output is '{NEW}' from this batch on; the batch before it wrote '{LAKE}'."


def test_a_window_is_compared_with_the_one_that_ends_where_it_begins(in_memory: Pipeline) -> None:
    in_memory.run(RunKey("orders", "one", "resolve"), output_name=LAKE, **WINDOW)
    after = WINDOW | {"startup_timestamp": NOW_MS + 1, "bounded_timestamp": NOW_MS + 2}
    with pytest.raises(InvalidRequest, match=r"the window before it is written to 'lake/orders'"):
        in_memory.resolve(RunKey("copy", "two", "resolve"), output_name=NEW, **after)


def test_a_committed_window_is_not_planned_anew_into_another_output(in_memory: Pipeline) -> None:
    in_memory.run("one", output_name=LAKE, **WINDOW)
    with pytest.raises(InvalidRequest, match=r"put it back\. Where"):
        in_memory.resolve("two", output_name=NEW, re_plan=True, **WINDOW)


# ── claims ────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def test_a_log_and_windows_that_name_no_output_are_not_both_let_in(in_memory: Pipeline) -> None:
    """What their jobs write is not known: it may be one place, and each record would be there under two keys."""
    in_memory.run("one")
    with pytest.raises(OutputTaken, match="belongs to pipeline 'pipeline'"):
        in_memory.resolve("window", **WINDOW)
    in_memory.run("named", output_name=LAKE, **WINDOW)
    replace(in_memory, pipeline_id="another", group="another").run("its own", **WINDOW)


@pytest.mark.parametrize("name", ["", "  ", 7])
def test_what_is_no_name_is_refused(in_memory: Pipeline, name: Any) -> None:
    with pytest.raises(InvalidRequest, match="output_name"):
        in_memory.resolve("one", output_name=name)


# ── one output for each topic ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_output_of_each_topic_is_claimed_when_a_batch_has_it(
    in_memory: Pipeline, other: Pipeline, memory: AnyCluster
) -> None:
    memory.create_topic("Shop.orders", 3)
    by_topic: dict[str, Any] = {"output_name": "delta:lake.{topic}"}
    in_memory.run("one", topics=[in_memory.topic], **by_topic)
    assert owner_of(in_memory.store, "delta:lake.shop_orders") is None
    produce(memory, replace(in_memory, topic="Shop.orders"))
    in_memory.run("two", topics=[in_memory.topic, "Shop.orders"], **by_topic)
    for table in (of_topic("delta:lake.{topic}", in_memory.topic), "delta:lake.shop_orders"):
        with pytest.raises(OutputTaken):
            other.resolve("three", output_name=table)


def test_two_topics_with_one_output_are_refused_before_anything_is_planned(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    for twin in ("a.b", "A_b"):
        memory.create_topic(twin, 1)
    with pytest.raises(InvalidRequest, match=r"The topics A_b and a\.b have one output, delta:lake\.a_b"):
        in_memory.resolve("one", topics=["a.b", "A_b"], output_name="delta:lake.{topic}")
    assert in_memory.store.list("") == []
