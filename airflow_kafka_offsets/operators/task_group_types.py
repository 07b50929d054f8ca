"""What ``kafka_spark_batch`` takes, as types: an editor completes the names and knows the values.

None of them has a default here: what is not given is left to each task, and so to the DAG's ``default_args``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

from airflow_kafka_offsets.kafka_values import IsolationLevel
from airflow_kafka_offsets.request.modes import BoundedModeName, Offsets, StartupModeName, Times
from airflow_kafka_offsets.request.parameters import SplitBy
from airflow_kafka_offsets.request.policies import CommitMode, PolicyAnswers, ResetStrategy
from airflow_kafka_offsets.spark.sinks.sink_arguments import BadRecordWords
from airflow_kafka_offsets.values.row_definition import FieldWords, Tombstones


class BatchParameters(TypedDict, total=False):
    """The parameters of ``ResolveStartupOffsetsOperator``, which documents them; ``output_name`` is ``output`` here."""

    kafka_config_id: str
    topics: Sequence[str] | str | None
    group_id: str | None
    startup_mode: StartupModeName | str
    bounded_mode: BoundedModeName | str
    max_records: int | str | None
    splits: int | str
    policies: PolicyAnswers | Sequence[str] | str | None
    topic_pattern: str | None
    partitions: Mapping[str, Sequence[int]] | str | None
    isolation_level: IsolationLevel | str | None
    pipeline_id: str | None
    startup_timestamp: Times | None
    specific_offsets: Offsets | None
    auto_offset_reset: ResetStrategy | str | None
    bounded_timestamp: Times | None
    bounded_offsets: Offsets | None
    partition_width: str | timedelta | None
    require_complete_window: bool | str
    idle_timeout: timedelta | float | str | None
    from_plan: Mapping[str, Any] | str | None
    max_records_per_partition: int | str | None
    split_by: SplitBy | str
    commit_mode: CommitMode | str
    filter_restored_partitions: bool | str
    restart: str | None
    overlap_timeout: timedelta | float | str
    work_store: str | None
    value: FieldWords | None
    key: FieldWords | None
    tombstones: Tombstones | str
    select: Sequence[str] | None
    where: str | None
    expect: Mapping[str, str] | None
    bad_records: BadRecordWords | None
    application_args: Sequence[str]


class TaskParameters(TypedDict, total=False):
    """What Airflow's ``BaseOperator`` takes, for each task of the group."""

    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: float
    max_retry_delay: timedelta | float | None
    retry_policy: Any
    execution_timeout: timedelta | None
    pool: str | None
    pool_slots: int
    queue: str
    priority_weight: int
    weight_rule: str
    executor: str | None
    executor_config: dict[str, Any] | None
    owner: str
    email: str | Sequence[str] | None
    email_on_failure: bool
    email_on_retry: bool
    on_execute_callback: Any
    on_failure_callback: Any
    on_success_callback: Any
    on_retry_callback: Any
    on_skipped_callback: Any
    run_as_user: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None


class GroupParameters(TypedDict, total=False):
    """What Airflow's ``TaskGroup`` takes besides its ``group_id``, which is ``kafka_spark_batch``'s first argument."""

    prefix_group_id: bool
    parent_group: Any
    default_args: dict[str, Any] | None
    group_display_name: str
    tooltip: str
    doc_md: str | None
    ui_color: str
    ui_fgcolor: str
    add_suffix_on_collision: bool


class Parameters(BatchParameters, TaskParameters, GroupParameters, total=False):
    """All parameters that go to the tasks."""


class SensorParameters(TaskParameters, total=False):
    """What a sensor of the group takes besides what it shares with the resolve task."""

    poke_interval: timedelta | float
    timeout: timedelta | float
    soft_fail: bool
    never_fail: bool
    silent_fail: bool
    mode: Literal["poke", "reschedule"]
    exponential_backoff: bool
    max_wait: timedelta | float | None
    deferrable: bool
    depends_on_past: bool
    wait_for_downstream: bool


class DiscoveryParameters(SensorParameters, total=False):
    """Of ``PartitionDiscoverySensor``."""

    min_partitions: int


class WindowParameters(SensorParameters, total=False):
    """Of ``WindowCompleteSensor``."""

    clock_skew: timedelta | float | str
