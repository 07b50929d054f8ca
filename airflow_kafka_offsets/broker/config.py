"""A Kafka connection's settings → an admin client's, and what they say about a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest

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


@dataclass(frozen=True, slots=True)
class ClientDefaults:
    """What a connection says about its consumer; absent is ``None``."""

    group_id: str | None
    auto_offset_reset: str | None
    isolation_level: str | None


def client_defaults(config: Mapping[str, Any]) -> ClientDefaults:
    return ClientDefaults(
        config.get("group.id"),
        config.get("auto.offset.reset"),
        config.get("isolation.level"),
    )


def admin_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an admin client.

    :raises InvalidRequest: there are no ``bootstrap.servers``.
    """
    if not config.get("bootstrap.servers") and not config.get("metadata.broker.list"):
        raise InvalidRequest(('The Kafka configuration has no "bootstrap.servers": give it as host:port.',))
    return {name: value for name, value in config.items() if name not in _NOT_FOR_ADMIN}


# What a transaction needs its own way (KIP-98), and what only speaks of records, of which it writes none.
_NOT_FOR_TRANSACTIONS = {
    "acks",
    "request.required.acks",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "retries",
    "message.send.max.retries",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "request.timeout.ms",
    "transactional.id",
    "transaction.timeout.ms",
    "on_delivery",
    "dr_cb",
    "dr_msg_cb",
}


def transactional_settings(settings: Mapping[str, Any], transactional_id: str, timeout_ms: int) -> dict[str, Any]:
    """An admin client's settings → those of a producer that only commits offsets."""
    kept = {name: value for name, value in settings.items() if name not in _NOT_FOR_TRANSACTIONS}
    return {**kept, "transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}


def address(config: Mapping[str, Any]) -> str:
    return str(config.get("bootstrap.servers") or config.get("metadata.broker.list"))
