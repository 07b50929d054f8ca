"""A Kafka connection's settings → those of an admin client and of consumers that never join a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.subscription import usable_group_id

# A connection is often written for a consumer or a producer. AdminClient refuses `on_commit`, and warns of the others.
_NOT_FOR_ADMIN = {
    "on_commit",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "auto.offset.reset",
    "isolation.level",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.commit.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "enable.partition.eof",
    "check.crcs",
    "allow.auto.create.topics",
    "stats_cb",
    "statistics.interval.ms",
}


def admin_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an admin client.

    :raises InvalidRequest: there are no ``bootstrap.servers``.
    """
    if not config.get("bootstrap.servers") and not config.get("metadata.broker.list"):
        raise InvalidRequest(('The Kafka configuration has no "bootstrap.servers": give it as host:port.',))
    return {name: value for name, value in config.items() if name not in _NOT_FOR_ADMIN}


def refuse_name(group_id: str) -> None:
    """
    :raises InvalidRequest: a name that librdkafka or Kafka cannot use; some of them would end the process.
    """
    parsed("group_id", lambda: usable_group_id(group_id))


def group_settings(group_id: str, *, stable: bool, patience_s: float) -> dict[str, Any]:
    """What a consumer needs besides an admin client's settings to read and write a group's offsets, never joining it.

    :param stable: whether a pending transactional commit is waited for.
    :param patience_s: how long one request may take.
    """
    return {
        "group.id": group_id,
        "enable.auto.commit": False,
        "isolation.level": "read_committed" if stable else "read_uncommitted",
        # A client that is destroyed waits for its commit: on the wire for the first, without a coordinator for the
        # second of these, which are 60 s and 45 s by default.
        "socket.timeout.ms": max(1000, int(patience_s * 1000)),
        "session.timeout.ms": 1000,
        "fetch.wait.max.ms": 0,  # it fetches nothing; the default is too long for a short socket.timeout.ms
    }


def look_up_settings(isolation_level: str) -> dict[str, Any]:
    """What a consumer needs besides an admin client's settings to look up offsets, never joining a group.

    A consumer without a group's name aborts the process. This one looks for the group's coordinator, and does nothing
    with it: it needs no right on the group.
    """
    return {
        "group.id": "airflow-kafka-offsets",
        "enable.auto.commit": False,
        "isolation.level": isolation_level,
    }


def address(config: Mapping[str, Any]) -> str:
    return str(config.get("bootstrap.servers") or config.get("metadata.broker.list"))
