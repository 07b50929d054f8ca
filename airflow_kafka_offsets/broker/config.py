"""A Kafka connection's settings → those of an admin client and of consumers that never join a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest

# Measured on a 4.1 broker: 32,767 bytes is what a request's string may be (KIP-482), and from 32,736 on the broker
# cannot describe a group that it has (its answer is UNKNOWN).
MAX_GROUP_ID_BYTES = 32_700
_CUT_OFF = " \t\n\v\f\r"  # C's isspace(), which librdkafka skips at the beginning of a value

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


def group_id_problem(group_id: str) -> str | None:
    """Why a group's name cannot be used, as the end of a sentence that begins with the name; ``None`` if it can.

    librdkafka does not refuse such names: it ends the process by an assertion (an empty one, one that UTF-8 cannot
    write), asks for another group (it cuts leading white space off, and everything from a NUL on) or waits until the
    deadline (a long one).
    """
    if not group_id.strip(_CUT_OFF):
        return "is empty"
    if group_id[0] in _CUT_OFF:
        return "begins with white space, which the Kafka client cuts off: it would use another group"
    if "\0" in group_id:
        return "has a NUL in it, where the Kafka client ends the name: it would use another group"
    try:
        size = len(group_id.encode())
    except UnicodeEncodeError as error:
        return f"cannot be written as UTF-8 (character {error.start + 1} is a lone surrogate)"
    if size > MAX_GROUP_ID_BYTES:
        return f"has {size} bytes, and Kafka takes {MAX_GROUP_ID_BYTES} at most"
    return None


def refuse_name(group_id: str) -> None:
    """
    :raises InvalidRequest: a name that librdkafka or Kafka cannot use; some of them would end the process.
    """
    problem = group_id_problem(group_id)
    if problem is not None:
        shown = group_id if len(group_id) <= 80 else f"{group_id[:80]}…"
        raise InvalidRequest((f"group_id {shown!r} {problem}.",))


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
