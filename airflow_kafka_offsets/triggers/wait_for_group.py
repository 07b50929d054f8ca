"""The wait of ``GroupEmptySensor`` in the triggerer: one question to the group's coordinator a look."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.batch.complete_request import with_connection
from airflow_kafka_offsets.errors import CONNECTION, InvalidRequest, listed, named
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of


class GroupEmptyTrigger(WaitingTrigger):
    """Fires ``{"group_id": …, "state": "Empty"}`` once the group has no live member.

    :param group_id: default: the connection's ``group.id``.
    :param pace: ``poke_interval``, ``until_ms``, ``silent_fail``: those of :class:`WaitingTrigger`.
    """

    def __init__(self, *, kafka_config_id: str, group_id: str | None, **pace: Any) -> None:
        super().__init__(kafka_config_id, **pace)
        self.group_id = group_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_kafka_offsets.triggers.wait_for_group.GroupEmptyTrigger",
            {"kafka_config_id": self.kafka_config_id, "group_id": self.group_id, **self.pace},
        )

    def look(self) -> dict[str, Any] | NotYet:
        """The group's state, or who is still a member."""
        config = kafka_hook(self.kafka_config_id).client_config
        group_id = with_connection(config, ScopeParameters(group_id=self.group_id)).group_id
        if group_id is None:
            raise InvalidRequest((f"Which group? Give {named('group_id')}, or set group.id in {named(CONNECTION)}.",))
        with cluster_of(self.kafka_config_id, config) as cluster:
            group = cluster.describe_group(group_id)
        if group.is_empty:
            return {"group_id": group_id, "state": group.state}
        return NotYet(f"group {group_id} is {group.state}: {listed(group.members) or 'its members are not listed'}")
