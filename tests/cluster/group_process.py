"""A process of its own that reads and writes a group's offsets: what ends it ends no test, and is seen.

``python -m tests.cluster.group_process`` is the process: it says ``ready``, reads one line of JSON (what to ask, and of
whom) and writes a line of JSON for each round. :class:`GroupProcess` is its parent's side.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from testbed.broker import KafkaBroker

PARTITIONS = 3
ROOT = Path(__file__).resolve().parents[2]


class GroupProcess:
    """The parent's side. Leaving the context ends the process and shows what it said before it ended."""

    def __init__(self) -> None:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.cluster.group_process"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"

    def ask(self, config: Mapping[str, Any], group: str, topic: str, **how: Any) -> None:
        """Rounds of reading, describing, writing and reading back, until it is stopped.

        :param how: ``first_round``, whose number is what it commits; ``write_first``: without reading before;
            ``deadline_s`` of each question.
        """
        self._say({"config": dict(config), "group": group, "topic": topic, **how})

    def next_round(self) -> dict[str, Any]:
        """The number of the next round, what it found before it, how long its longest question took, and when it began.

        :raises AssertionError: there is none; with what the process said before it ended.
        """
        found: dict[str, Any] = json.loads(self._line())
        return found

    def rounds_until(self, moment: float) -> list[dict[str, Any]]:
        """The next rounds, up to the first one that began after a moment of ``time.monotonic()``."""
        rounds = [self.next_round()]
        while rounds[-1]["began"] <= moment:
            rounds.append(self.next_round())
        return rounds

    def stop(self) -> list[dict[str, Any]]:
        """The rounds that it has made, and not yet told of, when it has ended the one that it is in.

        :raises AssertionError: it did not end well.
        """
        self._say("stop")
        assert self._process.stdout is not None
        rounds = [json.loads(line) for line in self._process.stdout]
        if self._process.wait(30):
            raise self._ended()
        return rounds

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _say(self, what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise self._ended()
        return line

    def _ended(self) -> AssertionError:
        assert self._process.stderr is not None
        return AssertionError(f"the process ended by {self._process.wait(30)}:\n{self._process.stderr.read()[-3000:]}")


@contextmanager
def group_process() -> Iterator[GroupProcess]:
    process = GroupProcess()
    try:
        yield process
    finally:
        process.end()


def offsets_at(topic: str, number: int) -> dict[TopicPartition, CommittedOffset]:
    """What round ``number`` commits."""
    mark = CommittedOffset(number, 0, f"round {number}")
    return dict.fromkeys((TopicPartition(topic, partition) for partition in range(PARTITIONS)), mark)


def ask_new_broker(broker: KafkaBroker, *, write_first: bool) -> None:
    """Start it and ask at once: it has no offsets topic yet. Kill it, start it and ask at once: it has one to load.

    :raises AssertionError: the process crashed, or an answer is wrong.
    """
    last = 0
    with closing(broker):
        for life in ("new", "killed before"):
            with group_process() as process:  # it is up before the broker is, so that the broker is as new as can be
                broker.start()
                if life == "new":
                    broker.create_topic("orders", PARTITIONS)
                asked = {"first_round": last + 1, "write_first": write_first}
                process.ask(broker.client_config, "readers", "orders", **asked)
                first = process.next_round()
                assert first["before"] == (None if write_first else [last] if last else []), (life, first)
                last = [first, *process.stop()][-1]["round"]
            broker.kill()


def _main() -> None:
    print("ready", flush=True)
    asked = json.loads(sys.stdin.readline())
    group, partitions = asked["group"], list(offsets_at(asked["topic"], 0))
    with KafkaCluster(asked["config"], deadline_s=asked.get("deadline_s", 60.0)) as cluster:
        for number in count(asked.get("first_round", 1)):
            began, took = time.monotonic(), list[float]()
            before = None if asked.get("write_first") else _timed(took, lambda: cluster.committed(group, partitions))
            _timed(took, lambda: cluster.describe_group(group))
            offsets = offsets_at(asked["topic"], number)
            _timed(took, partial(cluster.commit_offsets, group, offsets))
            after = _timed(took, lambda: cluster.committed(group, partitions))
            assert after == offsets, f"round {number}: {after}"
            held = None if before is None else sorted({found.offset for found in before.values()})
            print(json.dumps({"round": number, "before": held, "longest_s": max(took), "began": began}), flush=True)
            if select.select([sys.stdin], [], [], 0)[0]:  # "stop", or the parent has gone
                break


def _timed(took: list[float], call: Callable[[], Any]) -> Any:
    began = time.monotonic()
    try:
        return call()
    finally:
        took.append(time.monotonic() - began)


if __name__ == "__main__":
    _main()
