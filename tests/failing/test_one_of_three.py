"""One broker of three dies or hangs before a step: the step ends in time, and the others take over.

The same call, made again as Airflow makes it, gives what it would have given; afterwards every record is in the output
once, and log and group are at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testbed.broker import KafkaBroker
from tests.contract.pipeline import Run
from tests.failing.site import Site, repeated


def leader(site: Site) -> KafkaBroker:
    return site.kafka.nodes[site.kafka.leader(site.topic)]


def controller(site: Site) -> KafkaBroker:
    return site.kafka.nodes[site.kafka.controller()]


def coordinator(site: Site) -> KafkaBroker:
    return site.kafka.nodes[site.kafka.coordinator(site.group)]


FAULTS: dict[str, Callable[[Site], None]] = {
    "the leader is killed": lambda site: leader(site).kill(),
    "the controller is killed": lambda site: controller(site).kill(),
    "the coordinator is killed": lambda site: coordinator(site).kill(),
    "the leader hangs": lambda site: leader(site).pause(),
    "the coordinator hangs": lambda site: coordinator(site).pause(),
}


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        *(("the leader is killed", step) for step in ("look", "resolve", "commit")),
        ("the controller is killed", "resolve"),
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
    for name, ask in steps.items():
        if name == step:
            FAULTS[fault](site)
        _, failed = repeated(ask)
        for error in failed:
            assert error.retriable, error
            assert str(site.kafka.client_config["bootstrap.servers"]) in str(error)
    site.require_deadlines()
    site.kafka.heal()
    site.produce()
    site.pipeline.run("third")
    site.require_exact()
