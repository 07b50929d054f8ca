"""A consumer of the group has crashed, or is a static member that was stopped: its session is not over yet.

The broker refuses commits until then, whoever makes them, by both protocols (classic and KIP-848). The batch is
committed in the log; the group follows with the next commit after the session.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from testbed.topics import wait_for
from tests.failing.member import Member
from tests.failing.site import Site

KINDS = {
    "classic, killed": ("classic", None, Member.kill),
    "classic and static, killed": ("classic", "reader-1", Member.kill),
    "classic and static, stopped": ("classic", "reader-1", Member.close),
    "KIP-848, killed": ("consumer", None, Member.kill),
    "KIP-848 and static, killed": ("consumer", "reader-1", Member.kill),
    "KIP-848 and static, stopped": ("consumer", "reader-1", Member.close),
}


def test_a_commit_names_the_member_and_the_next_one_after_its_session_lets_the_group_follow(
    new_site: Callable[..., Site],
) -> None:
    """All kinds at once: each has to wait for a session."""
    sites, members, runs = {}, {}, {}
    for kind, (protocol, instance, _) in KINDS.items():
        site = sites[kind] = new_site()
        site.produce()
        site.pipeline.run("first")
        settings = {
            **site.kafka.client_config,
            "group.id": site.group,
            "client.id": "reader",
            "group.protocol": protocol,
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = 6_000
        if instance is not None:
            settings["group.instance.id"] = instance
        members[kind] = Member(settings, site.topic)
    for kind, site in sites.items():
        members[kind].wait_until_joined()
        site.produce()
        runs[kind] = site.pipeline.resolve("second").spark()
    for kind, (_, instance, leave) in KINDS.items():
        leave(members[kind])
        began = time.monotonic()
        group = runs[kind].commit().group
        assert time.monotonic() - began < 5.0
        assert group.is_behind, kind
        assert "\nreader at " in str(group.left_alone), kind
        assert (f"static member {instance}" in str(group.left_alone)) == (instance is not None)
        assert sites[kind].pipeline.newest.log.committed is not None
        assert sites[kind].pipeline.held() != sites[kind].produced
    for kind, site in sites.items():
        wait_for(
            f"{kind}: its session is over", lambda site=site: not site.timed.describe_group(site.group).members, 30
        )
        runs[kind].commit()
        site.require_exact()
