"""The task that waits until nobody consumes in a group any more, before a pipeline takes the group over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.request.subscription import parse_group_id
from airflow_kafka_offsets.sensors.waiting_sensor import Known, WaitingSensor
from airflow_kafka_offsets.task_docs import GROUP_EMPTY_DOC
from airflow_kafka_offsets.triggers.sensor_waits import GroupEmptyTrigger


class GroupEmptySensor(WaitingSensor):
    """Wait until a consumer group has no live member: its state is ``Empty``, or ``Dead`` (Kafka does not know it).

    While a group has members, Kafka refuses offsets from outside. A consumer that crashed, or a static one that was
    stopped, is a member until its session is over (``session.timeout.ms``, 45 s by default). The sensor reserves
    nothing: a consumer that joins afterwards is found by the resolve or the commit task (``GroupActive``).

    Returns ``{"group_id": …, "state": "Empty"}``. While it waits, it says who the members are.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param group_id: default: the connection's ``group.id``.
    :param deferrable: wait in the triggerer, without a worker slot. Default: yes, unless ``mode`` is given, or somebody
        has set ``[operators] default_deferrable`` to no.
    :param timeout: how long to wait: seconds or a ``timedelta``. Default: ten minutes, unless somebody has set
        ``[sensors] default_timeout``.
    :raises InvalidRequest: when the DAG is parsed: what is wrong whatever the templates give; every problem is named.
    """

    task_doc = GROUP_EMPTY_DOC
    template_fields: Sequence[str] = ("kafka_config_id", "group_id")

    def __init__(self, *, kafka_config_id: str = "kafka_default", group_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_config_id = kafka_config_id
        self.group_id = group_id
        known = Known(self)
        known.take(
            "group_id",
            lambda: parse_group_id(known.value("group_id"), "is empty; name the group, or leave it out"),
            None,
        )
        known.refuse()

    def _trigger(self, context: Any) -> GroupEmptyTrigger:
        return GroupEmptyTrigger(
            kafka_config_id=self.kafka_config_id, group_id=self.group_id, poke_interval=self.poke_interval
        )

    def _topics_asked(self) -> Sequence[str]:
        return ()

    def _report(self, context: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        self.log.info("Group %s is %s: it has no live member", found["group_id"], found["state"])
        return dict(found)
