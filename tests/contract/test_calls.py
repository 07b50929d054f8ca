"""What a use case asks of the work store and of the cluster, in each situation, beside what was recorded once.

The order of what is written is a rule: whoever dies in between leaves a state that the rules know. How often is asked
is a cost: each question is a request to a bucket or to a broker. ``calls.json`` holds both. Writes must be the same, in
the same order; questions may become fewer. ``python -m pytest tests/contract/test_calls.py --record`` writes it anew.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.request.policies import Skip
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Pipeline
from tests.contract.troubles import produce
from tests.model.store import MemoryStore

RECORDED = Path(__file__).with_name("calls.json")
WRITES = ("create", "delete", "commit_offsets")
HOUR_MS = 3_600_000
Situation = Callable[["Watched", AnyCluster], None]
SITUATIONS: dict[str, Situation] = {}


class Watched:
    """A pipeline whose calls are written down from :meth:`watch` on."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.calls, self._writes_down = pipeline, list[str](), False
        pipeline.store = _Spy(pipeline.store, self._on_call, "store")
        pipeline.cluster = _Spy(pipeline.cluster, self._on_call, "cluster")

    def watch(self, call: Callable[..., Any], *arguments: Any, **how: Any) -> None:
        self._writes_down = True
        try:
            call(*arguments, **how)
        except KafkaOffsetsError as refused:
            self.calls.append(type(refused).__name__)
        self._writes_down = False

    def _on_call(self, call: str) -> None:
        if self._writes_down:
            self.calls.append(call)


class _Spy:
    def __init__(self, real: Any, on_call: Callable[[str], None], what: str) -> None:
        self._real, self._on_call, self._what = real, on_call, what

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **how: Any) -> Any:
            where = _named(*arguments) if self._what == "store" else ""
            self._on_call(f"{name} {where}".rstrip())
            return found(*arguments, **how)

        return call


def _named(name: str, data: bytes = b"") -> str:
    """An object's name without what is drawn by lot, and which kind of entry it is."""
    entry = re.search(rb'"entry":"(\w+)"', data)
    short = re.sub(r"pipelines/[^/]+|outputs/[^/]+", lambda m: m[0].partition("/")[0], name)
    short = re.sub(r"-[0-9a-f]{8}\.", ".", short)
    return f"{short} {entry[1].decode()}" if entry else short


def situation(play: Situation) -> Situation:
    SITUATIONS[play.__name__] = play
    return play


@situation
def a_first_run(w: Watched, memory: AnyCluster) -> None:
    w.watch(w.pipeline.resolve, "one", output_name="A")


@situation
def its_commit(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.resolve("one", output_name="A").spark()
    w.watch(run.commit)


@situation
def its_commit_of_three_splits(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.resolve("one", splits=3).spark()
    w.watch(run.commit)


@situation
def its_commit_once_more(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.run("one")
    w.watch(run.commit)


@situation
def a_commit_without_reports(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.resolve("one")
    w.watch(run.commit)


@situation
def a_second_run(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    produce(memory, w.pipeline)
    w.watch(w.pipeline.resolve, "two")


@situation
def a_run_without_new_records(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    w.watch(w.pipeline.resolve, "two")


@situation
def the_commit_of_a_run_without_new_records(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    run = w.pipeline.resolve("two")
    w.watch(run.commit)


@situation
def a_retry(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.resolve("one")
    w.watch(w.pipeline.resolve, "one")


@situation
def the_next_run_after_one_that_failed(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.resolve("one").job().begin()
    w.watch(w.pipeline.resolve, "two")


@situation
def a_run_while_another_has_the_batch(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.resolve("one")
    w.pipeline.airflow.running.add("one")
    w.watch(w.pipeline.resolve, "two")


@situation
def a_cleared_run(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    w.watch(w.pipeline.resolve, "one")


@situation
def a_cleared_run_whose_batch_another_has_done(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.resolve("one")
    w.pipeline.run("two")
    w.watch(w.pipeline.resolve, "one")


@situation
def a_cleared_run_whose_records_are_gone(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    memory.delete_records("orders", 4)
    w.watch(w.pipeline.resolve, "one")


@situation
def a_batch_planned_anew(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.resolve("one")
    produce(memory, w.pipeline)
    w.watch(w.pipeline.resolve, "two", re_plan=True)


@situation
def a_batch_skipped_by_a_run(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.resolve("one").spark()
    w.watch(w.pipeline.resolve, "two", skip=run.batch_key)


@situation
def records_that_are_gone(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.resolve("one")
    memory.delete_records("orders", 4)
    w.watch(w.pipeline.resolve, "two")


@situation
def a_group_that_somebody_has_moved(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    memory.commit_as_somebody(w.pipeline.group, {TopicPartition("orders", 0): 1})
    w.watch(w.pipeline.resolve, "two")


@situation
def its_commit_after_somebody_moved_the_group(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.resolve("one").spark()
    memory.commit_as_somebody(w.pipeline.group, {TopicPartition("orders", 0): 1})
    w.watch(run.commit)


@situation
def a_run_with_a_cap(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    produce(memory, w.pipeline)
    w.watch(w.pipeline.resolve, "two", max_records=3)


@situation
def a_run_that_looks_how_near_retention_is(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    produce(memory, w.pipeline)
    w.pipeline.cluster.topics["orders"].retention_ms = 24 * HOUR_MS
    w.watch(w.pipeline.resolve, "two", min_retention_margin="PT4H")


@situation
def a_run_that_ends_by_time(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    produce(memory, w.pipeline)
    w.watch(w.pipeline.resolve, "two", bounded_mode="timestamp", bounded_timestamp=NOW_MS + HOUR_MS)


@situation
def a_run_that_leaves_the_group_alone(w: Watched, memory: AnyCluster) -> None:
    w.watch(w.pipeline.resolve, "one", commit_mode="checkpoint-only")


def _window(hours: int = 0) -> dict[str, Any]:
    start = NOW_MS - HOUR_MS * (2 - hours)
    bounds = {"startup_mode": "timestamp", "startup_timestamp": start}
    return {**bounds, "bounded_mode": "timestamp", "bounded_timestamp": start + HOUR_MS, "output_name": "A"}


@situation
def a_window(w: Watched, memory: AnyCluster) -> None:
    w.watch(w.pipeline.resolve, "one", **_window())


@situation
def the_commit_of_a_window(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.resolve("one", **_window()).spark()
    w.watch(run.commit)


@situation
def the_window_after_it(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one", **_window())
    w.watch(w.pipeline.resolve, "two", **_window(1))


@situation
def a_window_done_again(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one", **_window())
    w.watch(w.pipeline.resolve, "one", **_window())


@situation
def a_window_of_another_run_that_failed(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.resolve("one", **_window())
    w.watch(w.pipeline.resolve, "two", **_window())


@situation
def a_window_that_overlaps_another(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one", **_window())
    w.watch(w.pipeline.resolve, "two", **_window() | {"bounded_timestamp": NOW_MS})


@situation
def a_window_planned_anew(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one", **_window())
    w.watch(w.pipeline.resolve, "two", **_window(), re_plan=True)


@situation
def a_reset_by_hand(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    w.watch(w.pipeline.reset_to_earliest)


@situation
def a_reset_by_hand_as_a_dry_run(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    w.watch(w.pipeline.reset_to_earliest, execute=False)


@situation
def a_batch_skipped_by_hand(w: Watched, memory: AnyCluster) -> None:
    run = w.pipeline.resolve("one").spark()
    w.watch(w.pipeline.skip, Skip(run.batch_key, reason="because"))


@situation
def a_batch_redone_by_hand(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    w.watch(w.pipeline.redo_newest)


@situation
def what_a_run_would_do(w: Watched, memory: AnyCluster) -> None:
    w.pipeline.run("one")
    produce(memory, w.pipeline)
    w.watch(w.pipeline.preview)


def played(name: str, memory: AnyCluster) -> list[str]:
    memory.create_topic("orders", 3)
    for partition in range(3):
        memory.produce("orders", 4, partition, [NOW_MS - 2 * HOUR_MS + 1000 * n for n in range(4)])
    w = Watched(Pipeline(memory.reader, MemoryStore(), "orders", "g", now_ms=NOW_MS))
    SITUATIONS[name](w, memory)
    return w.calls


def test_no_use_case_writes_in_another_order_or_asks_more_than_was_recorded(
    memory_anew: Callable[[], AnyCluster], pytestconfig: pytest.Config
) -> None:
    found = {name: played(name, memory_anew()) for name in SITUATIONS}
    if pytestconfig.getoption("--record"):
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    recorded: dict[str, list[str]] = json.loads(RECORDED.read_text())
    assert found.keys() == recorded.keys()
    for name, calls in found.items():
        assert _writes(calls) == _writes(recorded[name]), name
        more = Counter(map(_verb, calls)) - Counter(map(_verb, recorded[name]))
        assert not more, f"{name} asks more than was recorded: {dict(more)}"


def _writes(calls: list[str]) -> list[str]:
    """What is written, and what is refused."""
    return [call for call in calls if call[0].isupper() or _verb(call) in WRITES]


def _verb(call: str) -> str:
    return call.partition(" ")[0]
