"""The brokers are restarted one after the other, as for an upgrade, while runs follow each other without a pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from testbed.three_brokers import ThreeBrokers
from tests.failing.site import Site, repeated

STEPS = ("look", "resolve", "spark", "commit")
MOST_ROUNDS = 5
"""Each is a restart of all brokers; one is nearly always enough for every step to meet one."""

Interval = tuple[float, float]


@dataclass
class Times:
    """When brokers were away, and when steps ran; two threads add to them.

    :ivar restarts: from the moment that a broker is told to stop until it answers again.
    :ivar steps: by step, each with the tries of it that failed.
    """

    restarts: list[Interval] = field(default_factory=list)
    steps: dict[str, list[Interval]] = field(default_factory=lambda: {step: [] for step in STEPS})

    @contextmanager
    def of(self, intervals: list[Interval]) -> Iterator[None]:
        began = time.monotonic()
        yield
        intervals.append((began, time.monotonic()))

    def without_a_restart(self) -> list[str]:
        """The steps of which none has run while a broker was away."""
        away = list(self.restarts)
        return [
            which
            for which, ran in self.steps.items()
            if not any(began < back and gone < ended for began, ended in list(ran) for gone, back in away)
        ]


def roll(kafka: ThreeBrokers, times: Times) -> None:
    """Each is stopped in order and started again when the others have taken over; then its copies catch up.

    Once more from the first, a few times at most, if a step has not met a restart by then.
    """
    for _ in range(MOST_ROUNDS):
        for broker in kafka.nodes.values():
            with times.of(times.restarts):
                broker.stop()
                broker.start()
            kafka.heal()
        if not times.without_a_restart():
            return


def test_no_record_is_lost_or_read_twice_and_each_question_ends_in_time(new_site: Callable[..., Site]) -> None:
    """Each step of some run meets a broker that is away."""
    site = new_site(deadline_s=20.0)
    times, failures = Times(), []
    with ThreadPoolExecutor(1) as thread:
        rolling = thread.submit(roll, site.kafka, times)
        for number in count():
            if rolling.done() and number > 3:
                break
            site.produce(2)
            with times.of(times.steps["look"]):
                failures += repeated(site.look)[1]
            with times.of(times.steps["resolve"]):
                run, failed = repeated(partial(site.pipeline.resolve, f"run-{number}"))
            failures += failed
            with times.of(times.steps["spark"]):
                failures += repeated(run.spark)[1]
            with times.of(times.steps["commit"]):
                failures += repeated(run.commit)[1]
        rolling.result()
    assert not times.without_a_restart(), "these have met no restart: nothing is shown of them"
    site.require_deadlines()
    site.require_exact()
    assert all(error.retriable for error in failures)
