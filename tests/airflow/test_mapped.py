"""Mapped tasks: each of the pipelines that one resolve task has, and the commit of each; and topics named by number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.dag_runs import RunResult
from tests.airflow.reader import all_rows

Run = Callable[..., RunResult]
Said = Callable[[], str]


def test_each_topic_of_a_mapped_task_group_goes_on_where_it_ended_though_the_list_changes(
    run: Run, broker: KafkaBroker, topic: Any, group: str, tmp_path: Path
) -> None:
    """The third topic's first run is no loss of the work store, although the task has succeeded before."""
    first, second, third = (topic(1, prefix=f"mapped-{letter}") for letter in "bca")
    broker.produce_many(first, 2)
    broker.produce_many(second, 3)

    assert run("mapped", {"group": group, "topics": [first, second], "output": str(tmp_path)}).state == "success"
    assert [committed_offsets(broker, group, name) for name in (first, second)] == [{0: 2}, {0: 3}]

    broker.produce_many(first, 1)
    broker.produce_many(third, 4)
    again = run("mapped", {"group": group, "topics": [third, first, second], "output": str(tmp_path)})

    assert again.states("one_topic.commit") == ["success"] * 3
    assert [committed_offsets(broker, group, name) for name in (first, second, third)] == [{0: 3}, {0: 3}, {0: 4}]
    assert [len(all_rows(tmp_path / name)) for name in (first, second, third)] == [3, 3, 4]


def test_a_commit_may_be_mapped_over_plans(run: Run, broker: KafkaBroker, group: str) -> None:
    names = [f"plans-{group}-{letter}" for letter in "ab"]
    for name in names:
        broker.create_topic(name)
        broker.produce_many(name, 2)

    result = run("mapped_commit", {"group": group, "topic": f"plans-{group}"})

    assert result.states("commit") == ["success"] * 2
    assert [committed_offsets(broker, group, name) for name in names] == [{0: 2}, {0: 2}]


@pytest.mark.parametrize("dag_id", ["mapped_without_a_name", "mapped_by_index"])
def test_a_mapped_resolve_without_a_name_for_each_pipeline_is_refused(
    run: Run, topic: Any, group: str, said: Said, dag_id: str
) -> None:
    result = run(dag_id, {"topic": topic(1), "group": group})
    assert result.states("resolve") == ["failed"]
    assert "A mapped resolve task needs a pipeline_id that goes with what it maps over, such as the topic" in said()


@pytest.mark.parametrize(("name", "found"), [("2026", "2026"), ("1e50", "1e+50"), ("True", "True")])
def test_a_topic_that_native_rendering_makes_a_number_is_named_with_the_way_out(
    run: Run, group: str, said: Said, name: str, found: str
) -> None:
    assert run("native", {"topic": name, "group": group}).states("resolve") == ["failed"]
    text = said()
    assert f"topics is {found}, which is no text; put the name in quotes" in text
    assert "write \"'{{ params.topic }}'\"" in text


def test_a_topic_with_another_name_is_read_under_native_rendering(
    run: Run, broker: KafkaBroker, topic: Any, group: str
) -> None:
    assert run("native", {"topic": topic(1), "group": group}).state == "success"
