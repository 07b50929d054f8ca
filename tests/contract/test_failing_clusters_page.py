"""docs/failing-clusters.md gives the deadlines that the code has, and the questions that each step asks."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.batch.measured_lag import lag_question, look_at_lag
from airflow_kafka_offsets.broker.connection import Connection
from airflow_kafka_offsets.plan.consumer_lag import parse_limits
from airflow_kafka_offsets.request.subscription import Scope, TopicList
from airflow_kafka_offsets.triggers.shared_client import DEADLINE_S
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline
from tests.failing.timed import Timed, questions

PAGE = Path(__file__).parents[2] / "docs" / "failing-clusters.md"


def table(memory: AnyCluster, pipeline: Pipeline) -> str:
    """The page's two tables, from a pipeline on a cluster in memory."""
    wait = {name: p.default for name, p in inspect.signature(Connection).parameters.items()}
    pipeline.run("first")

    def asked(step: Callable[[], Any]) -> tuple[Any, Counter[str]]:
        pipeline.cluster = Timed(memory.reader)
        return step(), pipeline.cluster.asked

    def look() -> None:
        scope = Scope(TopicList((pipeline.topic,)), pipeline.group, "read_committed", pipeline.pipeline_id)
        question = lag_question(scope, parse_limits(None, None), pipeline.log)
        look_at_lag(question, pipeline.cluster, pipeline.cluster.discover(scope.subscription), pipeline.now_ms)

    counts = {"a look at the lag": questions(asked(look)[1])}
    for partition in range(3):
        memory.produce(pipeline.topic, 2, partition)
    run, of_resolve = asked(partial(pipeline.resolve, "next"))
    counts["resolve, a run after the first"] = questions(of_resolve)
    run.spark()
    counts["commit, and the write to the group"] = questions(asked(run.commit)[1])
    rows = [
        ("the first contact of a task", f"{wait['first_contact_s']:g} s", "`ClusterUnavailable`, with the reason"),
        ("one attempt at a question", f"{wait['attempt_s']:g} s", "another attempt, by a new client"),
        (
            "a question, with all its attempts",
            f"{wait['deadline_s']:g} s",
            "`ClusterUnavailable`, with each partition that has no answer",
        ),
        (
            "a question of `OffsetLagSensor` in the triggerer",
            f"{DEADLINE_S:g} s",
            "the next look, at the next interval",
        ),
    ]
    lines = ["| what | waits at most | then |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows), ""]
    lines += ["| step | questions to Kafka | at most, if each is answered at its last moment |", "|---|---|---|"]
    for step, count in counts.items():
        limit = count * (DEADLINE_S if "look" in step else wait["deadline_s"])
        lines.append(f"| {step} | {count} | {limit:g} s |")
    return "\n".join(lines)


def test_the_page_has_the_deadlines_of_the_code(memory: AnyCluster, in_memory: Pipeline) -> None:
    expected = table(memory, in_memory)
    assert expected in PAGE.read_text(), f"docs/failing-clusters.md should have:\n{expected}"
