"""Whether a batch was read, as the commit decides it."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.read_reports import deciding_attempts
from airflow_kafka_offsets.log.verify_reads import Proof, require_verified, unverified


def require_read(
    batch: StoredBatch, newer_than: Mapping[int, int] | None = None, *, read_back: bool = False
) -> Proof | None:
    """How it is proved that every started split holds the current plan's records, by the weakest of them.

    :raises ReadNotVerified: the reports do not show it.
    """
    return require_verified(batch.log.plan, deciding_attempts(batch), newer_than, read_back=read_back)


def is_read(batch: StoredBatch) -> bool:
    return not unverified(batch.log.plan, deciding_attempts(batch))
