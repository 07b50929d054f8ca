"""Two tasks that share a pipeline: instances of a mapped task, two task groups of one DAG run, or two DAGs."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import RunKey
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline
from tests.contract.test_windows import T, hours

EVERYTHING: dict[str, Any] = {"startup_mode": "earliest-offset"}


def instance(index: int, run: str = "one", task_id: str = "resolve") -> RunKey:
    return RunKey("dag", run, task_id, index)


@pytest.fixture
def shared(memory: AnyCluster, in_memory: Pipeline) -> Pipeline:
    """Topics `a` and `b` with records of the same hour."""
    for topic in "ab":
        memory.create_topic(topic, 1)
        memory.produce(topic, timestamps_ms=[T, T + 1])
    return in_memory


@pytest.mark.parametrize("bounds", [EVERYTHING, hours(0, 1)], ids=["log", "window"])
@pytest.mark.parametrize("other", [instance(1), instance(-1, task_id="b.resolve")], ids=["mapped", "task group"])
def test_a_task_does_not_do_the_batch_of_other_topics_in_the_place_of_its_own(
    shared: Pipeline, bounds: dict[str, Any], other: RunKey
) -> None:
    """Each run was green, and the second topic was never read: the instance did the first one's batch once more."""
    first = shared.resolve(instance(0), topics=["a"], **bounds)
    with pytest.raises(InvalidRequest, match=r"it reads topics a, and this task reads topics b.* pipeline_id"):
        shared.resolve(other, topics=["b"], **bounds)
    first.done()
    assert shared.resolve(instance(0), topics=["a"], **bounds).batch_key == first.batch_key, "a clear"


def test_windows_of_one_run_that_are_mapped_over_times_share_a_pipeline(shared: Pipeline) -> None:
    found = [shared.run(instance(n), topics=["a"], **hours(n, n + 1)) for n in range(2)]
    assert len({run.batch_key for run in found}) == 2


def test_what_another_task_of_the_run_has_committed_is_no_obstacle(shared: Pipeline) -> None:
    """One after the other: each plans a batch of its own."""
    assert [shared.run(instance(n), topics=[topic]).number for n, topic in enumerate("ab")] == [1, 2]


def test_an_unfinished_batch_of_a_run_before_is_done_whatever_topics_the_dag_has_now(shared: Pipeline) -> None:
    left = shared.resolve(instance(0), topics=["a"])
    assert shared.run(instance(1, run="two"), topics=["b"]).batch_key == left.batch_key


def test_a_task_that_reads_the_same_may_do_the_batch_that_another_of_its_run_has_left(shared: Pipeline) -> None:
    """A second task group, for the case that the first one fails."""
    left = shared.resolve(instance(-1), topics=["a"])
    assert shared.run(instance(-1, task_id="again.resolve"), topics=["a"]).batch_key == left.batch_key


def test_instances_of_a_mapped_task_with_an_output_each_do_not_share_a_pipeline(shared: Pipeline) -> None:
    """The first was committed, so the second found nothing new for its own output, in a green run."""
    shared.run(instance(0), topics=["a"], output_name="/lake/one")
    with pytest.raises(InvalidRequest, match="it writes '/lake/one', and this task writes '/lake/two'"):
        shared.resolve(instance(1), topics=["a"], output_name="/lake/two")


def test_a_dag_does_not_do_the_window_of_another_dag_in_the_place_of_its_own(shared: Pipeline) -> None:
    """A loop makes a DAG for each topic, with one pipeline_id. All was green, and the second topic was in no window."""
    first, second = RunKey("of-a", "one", "resolve"), RunKey("of-b", "one", "resolve")
    window = shared.run(first, topics=["a"], **hours(0, 1))
    with pytest.raises(
        InvalidRequest, match=r"of-a\.resolve has planned .*would leave out the records of b.*pipeline_id"
    ):
        shared.resolve(second, topics=["b"], **hours(0, 1))
    with pytest.raises(InvalidRequest, match=r"would take away the rows of a"):
        shared.resolve(second, topics=["b"], re_plan=True, **hours(0, 1))
    renamed = shared.run(RunKey("of-both", "one", "resolve"), topics=["a", "b"], re_plan=True, **hours(0, 1))
    assert renamed.batch_key == window.batch_key
    assert shared.run(second, topics=["b"], **hours(0, 1)).batch_key == window.batch_key, "it has b"
