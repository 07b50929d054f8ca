"""The one way through: request + cluster → plan; plan + reports + cluster → committed. Operators and CLI call this.

It decides the order of the questions, which is part of the rules: log starts, then ends, then timestamps (B6), the group
last but one look before the write. What the answers mean is decided in ``offsets/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.broker.protocol import OffsetCommitter, OffsetReader
from airflow_kafka_offsets.errors import ClusterUnavailable, CommitConflict, GroupActive, InvalidRequest, RefusedError
from airflow_kafka_offsets.offsets.caps import cap
from airflow_kafka_offsets.offsets.commits import decide_commit, mark_of
from airflow_kafka_offsets.offsets.model import (
    ClusterDescription,
    CommittedOffset,
    PartitionSnapshot,
    TopicPartition,
    by_topic,
)
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.position import positions_in_group
from airflow_kafka_offsets.offsets.resolve import Facts, Refusal, raise_refusals, refuse_below_group, resolve
from airflow_kafka_offsets.offsets.spec import (
    FromTimestamp,
    PartitionSet,
    PlanRequest,
    SpecificOffsets,
    TopicList,
    UntilSpecificOffsets,
    UntilTimestamp,
)
