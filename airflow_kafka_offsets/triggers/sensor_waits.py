"""What the sensors wait for in the triggerer: partitions, an empty group, another pipeline's commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.batch.committed_so_far import look_at_commits
from airflow_kafka_offsets.batch.complete_request import with_connection
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import CONNECTION, InvalidRequest, listed, named
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from airflow_kafka_offsets.kafka_values import by_topic
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.missing_topics import missing_for
from airflow_kafka_offsets.request.commit_target import target_from_dict
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters
from airflow_kafka_offsets.request.policies import parse_policies
from airflow_kafka_offsets.request.subscription import parse_scope
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of


@dataclass(eq=False, repr=False, kw_only=True)
class PartitionDiscoveryTrigger(WaitingTrigger):
    """Fires ``{"cluster_id": …, "topics": …}`` once nothing is missing: one metadata call a look.

    :param scope: the fields of :class:`ScopeParameters`.
    :param policies: ``{"unavailable": …}`` of the plan that is waited for; ``hold``: what a person holds.
    """

    scope: Mapping[str, Any]
    min_partitions: int
    policies: Any = None
    hold: Any = None

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


@dataclass(eq=False, repr=False, kw_only=True)
class GroupEmptyTrigger(WaitingTrigger):
    """Fires ``{"group_id": …, "state": "Empty"}`` once the group has no live member: one question a look.

    :param group_id: default: the connection's ``group.id``.
    """

    group_id: str | None

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


@dataclass(eq=False, repr=False, kw_only=True)
class BatchCommittedTrigger(WaitingTrigger):
    """Fires ``{"pipeline_id": …, "batch": …}`` once the pipeline has committed up to ``target``.

    It reads the pipeline's log, and asks Kafka only for a time.

    :param target: what :func:`~airflow_kafka_offsets.request.commit_target.target_to_dict` gives.
    :param topics: which topics a time is about; none: all of the pipeline's position.
    """

    pipeline_id: str
    target: Mapping[str, Any]
    topics: Sequence[str] = ()
    work_store: str | None = None

    @property
    def waits_for(self) -> str:
        return f"{self.kafka_config_id} {self.work_store}"

    def look(self) -> dict[str, Any] | NotYet:
        """The key of the newest batch that is committed, or what is missing."""
        config = kafka_hook(self.kafka_config_id)
        pipeline = PipelineLog(configured_work_store(self.work_store), self.pipeline_id)
        key, missing = look_at_commits(
            target_from_dict(self.target),
            pipeline,
            lambda: cluster_of(self.kafka_config_id, config.client_config),
            self.topics,
            now_ms(),
        )
        return NotYet(listed(missing)) if missing else {"pipeline_id": self.pipeline_id, "batch": key}
