"""The brokers are restarted one after the other, as for an upgrade, while runs follow each other without a pause."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

from testbed.three_brokers import ThreeBrokers
from tests.failing.site import Site, repeated


def roll(kafka: ThreeBrokers) -> None:
    """Each is stopped in order and started again when the others have taken over; then its copies catch up."""
    for broker in kafka.nodes.values():
        broker.stop()
        broker.start()
        kafka.heal()


def test_no_record_is_lost_or_read_twice_and_each_question_ends_in_time(new_site: Callable[..., Site]) -> None:
    """Both kinds of commit: each step of some run meets a broker that goes or comes."""
    sites = [new_site(deadline_s=20.0), new_site(deadline_s=20.0)]
    sites[1].pipeline.parameters["fencing"] = "transaction"
    failures = []
    with ThreadPoolExecutor(1) as thread:
        rolling = thread.submit(roll, sites[0].kafka)
        runs = 0
        for number in count():
            if rolling.done() and number > 3:
                break
            for site in sites:
                site.produce(2)
                _, failed = repeated(site.look)
                run, more = repeated(partial(site.pipeline.resolve, f"run-{number}"))
                failures += failed + more
                failures += repeated(run.spark)[1]
                failures += repeated(run.commit)[1]
                runs += 1
        rolling.result()
    for site in sites:
        site.require_deadlines()
        site.require_exact()
    assert all(error.retriable for error in failures)
