"""The wait of ``PartitionDiscoverySensor`` in the triggerer: one metadata call a look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.kafka_values import by_topic
from airflow_kafka_offsets.plan.missing_topics import missing_for
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters
from airflow_kafka_offsets.request.policies import parse_policies
from airflow_kafka_offsets.request.subscription import parse_scope
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of

_OWN = ("kafka_config_id", "scope", "min_partitions", "policies", "hold")


class PartitionDiscoveryTrigger(WaitingTrigger):
    """Fires ``{"cluster_id": …, "topics": …}`` once nothing is missing.

    :param scope: the fields of :class:`ScopeParameters`.
    :param policies: ``{"unavailable": …}`` of the plan that is waited for; ``hold``: what a person holds.
    :param pace: ``poke_interval``, ``until_ms``, ``silent_fail``: those of :class:`WaitingTrigger`.
    """

    def __init__(
        self,
        *,
        kafka_config_id: str,
        scope: Mapping[str, Any],
        min_partitions: int,
        policies: Any = None,
        hold: Any = None,
        **pace: Any,
    ) -> None:
        super().__init__(kafka_config_id, **pace)
        self.scope = dict(scope)
        self.min_partitions = min_partitions
        self.policies = policies
        self.hold = hold

    def serialize(self) -> tuple[str, dict[str, Any]]:
        own = {name: getattr(self, name) for name in _OWN}
        return (
            "airflow_kafka_offsets.triggers.wait_for_partitions.PartitionDiscoveryTrigger",
            {**own, **self.pace},
        )

    def look(self) -> dict[str, Any] | NotYet:
        """``{"cluster_id": …, "topics": {"orders": [0, 1]}}``, or what is missing."""
        subscription = parse_scope(ScopeParameters(**self.scope)).subscription
        with cluster_of(self.kafka_config_id, kafka_hook(self.kafka_config_id).client_config) as cluster:
            found = cluster.discover(subscription)
        may_hold = parse_policies(RequestParameters(policies=self.policies, hold=self.hold)).may_hold
        missing = missing_for(subscription, found.topics, self.min_partitions, may_hold)
        if missing:
            return NotYet("; ".join(missing))
        return {"cluster_id": found.cluster_id, "topics": by_topic(found.partitions())}
