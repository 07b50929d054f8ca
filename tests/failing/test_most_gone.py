"""Two of three brokers are gone, or all three hang: nobody can take over, and each step says so in its time.

Nothing is lost by it: when the brokers are back, the same calls end well.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_kafka_offsets.errors import ClusterUnavailable
from tests.failing.site import Site, took


def kill_two(site: Site) -> set[int]:
    """The group's coordinator, and another one."""
    coordinator = site.kafka.coordinator(site.group)
    gone = {coordinator, coordinator % 3 + 1}
    for node in gone:
        site.kafka.nodes[node].kill()
    return gone


def pause_all(site: Site) -> set[int]:
    for broker in site.kafka.nodes.values():
        broker.pause()
    return set(site.kafka.nodes)


@pytest.mark.parametrize("fault", [kill_two, pause_all])
def test_each_step_says_so_in_time_and_ends_well_when_they_are_back(
    new_site: Callable[..., Site], fault: Callable[[Site], set[int]]
) -> None:
    site = new_site(deadline_s=5.0, attempt_s=2.0)
    site.produce()
    site.pipeline.run("first")
    site.produce()
    run = site.pipeline.resolve("second")
    run.spark()
    leaders = {number: site.kafka.leader(site.topic, number) for number in site.produced}
    gone = fault(site)
    try:
        looked, _ = took(site.look)
        resolved, _ = took(lambda: site.pipeline.resolve("third"))
        committed, _ = took(run.commit)
    finally:
        site.kafka.heal()
    site.require_deadlines()
    for error in (resolved, committed):
        assert isinstance(error, ClusterUnavailable), error
        assert error.retriable
        assert str(site.kafka.client_config["bootstrap.servers"]) in str(error)
    if fault is kill_two:
        said = str(looked)  # of the sensor, whose questions the broker that is left answers in part
        for number, leader in leaders.items():
            names_both = f"{site.topic}[{number}]: " in said and f"its leader is broker {leader} at " in said
            assert names_both == (leader in gone), (number, leader, said)
    # Where all hang, nobody tells a resolve which partitions there are; a commit knows them from its plan.
    for error in (resolved, committed) if fault is kill_two else (committed,):
        assert all(f"{site.topic}[{number}]" in str(error) for number in site.produced), error
    assert site.pipeline.newest.log.committed is None, "nothing was committed"
    run.commit()
    site.produce()
    site.pipeline.run("third")
    site.require_exact()
