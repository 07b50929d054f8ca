"""A process that is a member of a group until it is killed, or told to close its consumer.

``python -m tests.failing.member`` is the process: it reads one line of JSON (settings and topic), says ``joined`` when
it has partitions, and closes at the end of its input. :class:`Member` is its parent's side.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from testbed.topics import quiet

ROOT = Path(__file__).resolve().parents[2]


class Member:
    """The parent's side.

    :raises AssertionError: it could not join.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.failing.member"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"settings": dict(settings), "topic": topic}) + "\n")
        self._process.stdin.flush()

    def wait_until_joined(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "joined\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """It leaves as a consumer does that is stopped in order."""
        self._process.communicate(timeout=60)


def _main() -> None:
    asked = json.loads(sys.stdin.readline())
    consumer = Consumer({**asked["settings"], "enable.auto.commit": False}, logger=quiet)
    consumer.subscribe([asked["topic"]], on_assign=lambda *_: print("joined", flush=True))
    while not select.select([sys.stdin], [], [], 0)[0]:
        consumer.poll(0.1)
    consumer.close()


if __name__ == "__main__":
    _main()
