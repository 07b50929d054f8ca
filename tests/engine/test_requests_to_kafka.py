"""A turn asks Kafka for each thing once."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, produce, tp

THINGS: dict[str, Callable[..., Iterable[Any]]] = {
    "describe": lambda subscription: subscription.topics,
    "committed": lambda group_id, partitions: partitions,
    "log_start_offsets": lambda partitions: partitions,
    "end_offsets": lambda partitions, isolation_level: partitions,
    "ends_of_epochs": lambda epochs: epochs,
    "offsets_for_times": lambda times_ms, isolation_level: times_ms.items(),
}


@pytest.fixture
def asked(cluster: InMemoryCluster, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, Any]]:
    """How often Kafka was asked for what. Each verb still answers."""
    counts = Counter[tuple[str, Any]]()

    def counted(verb: str) -> Callable[..., Any]:
        ask = getattr(cluster, verb)

        def count(*words: Any) -> Any:
            counts.update((verb, thing) for thing in THINGS[verb](*words))
            return ask(*words)

        return count

    for verb in THINGS:
        monkeypatch.setattr(cluster, verb, counted(verb))
    return counts


def test_in_sequence(cluster: InMemoryCluster, pipeline: Pipeline, asked: Counter[tuple[str, Any]]) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    asked.clear()
    assert isinstance(pipeline.resolve(), NoBatch)  # and the group is renewed
    assert (asked["committed", tp(0)], max(asked.values())) == (1, 1)

    cluster.elect(tp(0))
    produce(cluster, 0, 10)
    asked.clear()
    assert isinstance(pipeline.resolve(), ResolvedBatch)
    assert (asked["ends_of_epochs", tp(0)], max(asked.values())) == (1, 1)


@pytest.mark.parametrize("start", [1, 5])
def test_by_window(cluster: InMemoryCluster, pipeline: Pipeline, asked: Counter[tuple[str, Any]], start: int) -> None:
    """A window beside the one that is there, and one with a gap between."""
    first = cluster.now_ms - 24 * HOUR
    cluster.produce(tp(0), [first + hour * HOUR for hour in range(8)])
    pipeline.whole_run("first", pipeline.window(first, first + HOUR))
    asked.clear()
    begin = first + start * HOUR
    assert isinstance(pipeline.resolve("second", pipeline.window(begin, begin + HOUR)), ResolvedBatch)
    assert (asked["offsets_for_times", (tp(0), begin + HOUR)], max(asked.values())) == (1, 1)
