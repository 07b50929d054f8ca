"""The task that waits until there is something to plan for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.hooks.run_context import run_conf
from airflow_kafka_offsets.hooks.value_sizes import partitions_or_counts
from airflow_kafka_offsets.hooks.work_store import configured_log
from airflow_kafka_offsets.plan.missing_topics import new_since
from airflow_kafka_offsets.request.offset_maps import at_least_one
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters, parameters_of
from airflow_kafka_offsets.request.policies import PolicyAnswers, parse_policies
from airflow_kafka_offsets.request.run_conf import with_conf
from airflow_kafka_offsets.sensors.waiting_sensor import Known, WaitingSensor, watched_pipeline_id
from airflow_kafka_offsets.task_docs import PARTITIONS_DOC
from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger


class PartitionDiscoverySensor(WaitingSensor, ScopeParameters):
    """Wait until the topics exist, have enough partitions, and every partition has a leader.

    Each look is one metadata call, however many partitions there are. Returns what it found: ``{"orders": [0, 1, 2]}``.
    It logs partitions that are new since the pipeline's last batch, and pushes them as XCom ``new_partitions``. Either
    is ``{"topic_count": 500, "partition_count": 50000}`` where the lists have more than 48 KiB.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names that must all exist; or
    :param topic_pattern: a regular expression for whole names, of which at least one topic must match; or
    :param partitions: ``{"topic": [0, 2]}``, which must all exist.
    :param min_partitions: how many partitions every topic must have.
    :param policies: of the resolve task: with ``{"unavailable": "hold"}`` no partition needs a leader.
    :param hold: of the resolve task: these partitions need none. A run's conf holds here, too.
    :param resolve_task_id: the resolve task whose position "new" is measured by; ``kafka_spark_batch`` names its own.
    :param group_id: of that task; default: the connection's ``group.id``.
    :param pipeline_id: of that task, if it has one of its own.
    :param work_store: of that task.
    :param deferrable: wait in the triggerer, without a worker slot. Default: yes, unless ``mode`` is given, or somebody
        has set ``[operators] default_deferrable`` to no.
    :param timeout: how long to wait: seconds or a ``timedelta``. Default: ten minutes, unless somebody has set
        ``[sensors] default_timeout``.
    :raises InvalidRequest: when the DAG is parsed: what is wrong whatever the templates give; every problem is named.
    """

    task_doc = PARTITIONS_DOC
    template_fields: Sequence[str] = (
        "kafka_config_id",
        "topics",
        "topic_pattern",
        "partitions",
        "policies",
        "hold",
        "group_id",
        "pipeline_id",
        "work_store",
    )

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        min_partitions: int = 1,
        policies: PolicyAnswers | Sequence[str] | str | None = None,
        hold: Sequence[str] | str | None = None,
        resolve_task_id: str | None = None,
        group_id: str | None = None,
        pipeline_id: str | None = None,
        work_store: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_config_id = kafka_config_id
        ScopeParameters.__init__(
            self,
            topics=topics,
            topic_pattern=topic_pattern,
            partitions=partitions,
            group_id=group_id,
            pipeline_id=pipeline_id,
        )
        self.policies = policies
        self.hold = hold
        self.resolve_task_id = resolve_task_id
        self.work_store = work_store
        known = Known(self)
        known.check_what_all_have()
        self.min_partitions = known.take("min_partitions", lambda: at_least_one(min_partitions), None) or 1
        asked = RequestParameters(policies=known.value("policies"), hold=known.value("hold"))
        known.take_all(lambda: parse_policies(asked), "policies", "hold")
        known.refuse()

    def _trigger(self, context: Any) -> PartitionDiscoveryTrigger:
        conf = run_conf(context) if "dag_run" in context else None
        asked = with_conf(RequestParameters(policies=self.policies, hold=self.hold), conf)
        return PartitionDiscoveryTrigger(
            kafka_config_id=self.kafka_config_id,
            scope=parameters_of(ScopeParameters, self).to_dict(),
            min_partitions=self.min_partitions,
            policies=asked.policies,
            hold=asked.hold,
            poke_interval=self.poke_interval,
        )

    def _report(self, context: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        topics: dict[str, list[int]] = found["topics"]
        if self.resolve_task_id or self.pipeline_id:
            new = partitions_or_counts(self._new_partitions(context, topics))
            if new:
                self.log.info("New since the last batch: %s", new)
            context["ti"].xcom_push(key="new_partitions", value=new)
        return partitions_or_counts(topics)

    def _new_partitions(self, context: Any, topics: dict[str, list[int]]) -> dict[str, list[int]]:
        from airflow_kafka_offsets.batch.measured_lag import position_of

        pipeline_id = str(watched_pipeline_id(self, context))
        position = position_of(configured_log(self.work_store, pipeline_id))
        return new_since(position, topics) if position else {}
