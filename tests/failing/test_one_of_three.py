"""One broker of three dies or hangs before a step: the step ends in time, and the others take over.

The same call, made again as Airflow makes it, gives what it would have given; afterwards every record is in the output
once, and log and group are at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testbed.broker import KafkaBroker
from testbed.topics import wait_for
from tests.contract.pipeline import Run
from tests.failing.site import Site, repeated


def leader(site: Site) -> int:
    return site.kafka.leader(site.topic)


def controller(site: Site) -> int:
    return site.kafka.controller()


def coordinator(site: Site) -> int:
    return site.kafka.coordinator(site.group)


FAULTS: dict[str, tuple[Callable[[Site], int], Callable[[KafkaBroker], None]]] = {
    "the leader is killed": (leader, KafkaBroker.kill),
    "the controller is killed": (controller, KafkaBroker.kill),
    "the coordinator is killed": (coordinator, KafkaBroker.kill),
    "the leader hangs": (leader, KafkaBroker.pause),
    "the coordinator hangs": (coordinator, KafkaBroker.pause),
}
NOBODY = -1


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        *(("the leader is killed", step) for step in ("look", "resolve", "commit")),
        *(("the controller is killed", step) for step in ("resolve", "commit")),
        ("the coordinator is killed", "commit"),
        ("the leader hangs", "resolve"),
        ("the coordinator hangs", "commit"),
    ],
)
def test_each_step_ends_in_time_and_the_same_call_is_exact(
    new_site: Callable[..., Site], fault: str, step: str
) -> None:
    site = new_site()
    site.produce()
    site.pipeline.run("first")
    site.produce()
    runs: list[Run] = []

    def resolve() -> None:
        runs.append(site.pipeline.resolve("second"))

    steps: dict[str, Callable[[], object]] = {
        "look": site.look,
        "resolve": resolve,
        "spark": lambda: runs[-1].spark(),
        "commit": lambda: runs[-1].commit(),
    }
    who, fails = FAULTS[fault]
    gone = NOBODY
    for name, ask in steps.items():
        if name == step:
            gone = who(site)
            fails(site.kafka.nodes[gone])
        _, failed = repeated(ask)
        for error in failed:
            assert error.retriable, error
            assert str(site.kafka.client_config["bootstrap.servers"]) in str(error)

    def is_another() -> bool:
        try:
            return who(site) not in (gone, NOBODY)
        except OSError:  # the controller's election
            return False

    wait_for(f"another broker has taken over from {gone}, which is dead or hangs until here", is_another)
    site.require_deadlines()
    site.kafka.heal()
    site.produce()
    site.pipeline.run("third")
    site.require_exact()
