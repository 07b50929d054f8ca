"""Waiting for a backlog in the triggerer, for a deferred ``OffsetLagSensor``. It never joins the group."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from airflow_kafka_offsets.batch.measured_lag import lag_question, look_at_lag
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.metrics import send_lag
from airflow_kafka_offsets.hooks.value_sizes import fits
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.consumer_lag import Lag, parse_limits
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.subscription import scope_for
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of


@dataclass(kw_only=True)
class LagWatch(ScopeParameters):
    """Whose lag over which topics, and how much of it is enough.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names; exactly one of ``topics``, ``topic_pattern`` and ``partitions``.
    :param topic_pattern: a regular expression for whole names.
    :param partitions: ``{"topic": [0, 2]}``.
    :param group_id: default: the connection's ``group.id``.
    :param pipeline_id: measure from this pipeline's position, instead of what the group holds.
    :param work_store: of that pipeline.
    :param isolation_level: default: the connection's.
    :param min_records: so many unread records are enough. None of the three: one record.
    :param max_age: so is one that is older: seconds, or an ISO 8601 duration (``PT10M``).
    :param min_retention_margin: so is one that retention may delete before this time has passed.
    """

    kafka_config_id: str = "kafka_default"
    work_store: str | None = None
    min_records: int | str | None = None
    max_age: float | str | timedelta | None = None
    min_retention_margin: float | str | timedelta | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON: what a trigger is stored as."""
        return {
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in asdict(self).items()
        }

    @property
    def limits(self) -> tuple[Any, Any, Any]:
        """As :func:`parse_limits` takes them."""
        return self.min_records, self.max_age, self.min_retention_margin

    @property
    def waits_for(self) -> str:
        """What may hang during a look: the connection's brokers, and a pipeline's work store."""
        return self.kafka_config_id if self.pipeline_id is None else f"{self.kafka_config_id} {self.work_store}"

    def look(self) -> Lag:
        """One look: eight batch questions or fewer, however many partitions. It is sent to Airflow's metrics, too.

        :raises InvalidRequest: the request is wrong, whatever the cluster holds.
        :raises ClusterUnavailable: the cluster could not be asked.
        """
        config = kafka_hook(self.kafka_config_id).client_config
        limits = parse_limits(*self.limits)
        scope = scope_for(config, self)
        named = scope.pipeline_id
        question = lag_question(
            scope, limits, PipelineLog(configured_work_store(self.work_store), named) if named else None
        )
        with cluster_of(self.kafka_config_id, config) as cluster:
            lag = look_at_lag(question, cluster, cluster.discover(scope.subscription), now_ms())
        send_lag(lag, named)
        return lag


class OffsetLagTrigger(WaitingTrigger):
    """Fires the lag once it is enough; the parameters are those of :class:`LagWatch`."""

    def __init__(
        self, *, poke_interval: float, until_ms: int | None = None, silent_fail: bool = False, **watch: Any
    ) -> None:
        self.watch = LagWatch(**watch)
        super().__init__(self.watch.kafka_config_id, poke_interval, until_ms, silent_fail)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, given = super().serialize()
        return path, {**self.watch.to_dict(), **given}

    @property
    def waits_for(self) -> str:
        return self.watch.waits_for

    def look(self) -> dict[str, Any] | NotYet:
        lag = self.watch.look()
        return event_of(lag) if lag.is_enough else NotYet(str(lag))


def event_of(lag: Lag) -> dict[str, Any]:
    """The lag as JSON; without the topics where they are too many for Airflow's database."""
    whole = lag.to_dict()
    return whole if fits(whole) else {**whole, "topics": None}
