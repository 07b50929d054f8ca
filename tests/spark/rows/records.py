"""Records made by hand, and what becomes of each: a row, a reason, or nothing because it is filtered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.rows.config import Delta, Rows
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.rows.registry import RegisteredSchemas
from airflow_kafka_offsets.spark.decode import SETTINGS
from airflow_kafka_offsets.spark.fates import KAFKA_COLUMNS, REASON, Fates

Bytes = bytes | None
FILTERED = "filtered"


class Bad(str):
    """A reason."""


def records(spark: SparkSession, values: Sequence[Bytes], keys: Sequence[Bytes] | None = None) -> DataFrame:
    """With the offsets 0, 1, …"""
    at = datetime(2026, 11, 20, tzinfo=UTC)
    keys = keys or [None] * len(values)
    pairs = enumerate(zip(keys, values, strict=True))
    return spark.createDataFrame([(k, v, "orders", 0, offset, at, 0, None) for offset, (k, v) in pairs], KAFKA_COLUMNS)


def became(
    spark: SparkSession,
    values: Sequence[Bytes],
    rows: Rows,
    keys: Sequence[Bytes] | None = None,
    schemas: dict[str, RegisteredSchemas] | None = None,
) -> list[Any]:
    """Of each record its columns (one alone is not in a tuple), or why it is none."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    fates = Fates(records(spark, values, keys), job_object(Delta("lake.orders"), rows, schemas)["rows"])
    reasons = {row["offset"]: row[REASON] for row in fates.all.select("offset", REASON).collect()}
    reasons |= {row["offset"]: row["reason"] for row in fates.bad().collect()}
    columns = [name for name in fates.rows().columns if name not in ("topic", "partition", "offset")]
    found = {row["offset"]: [row[name] for name in columns] for row in fates.rows().collect()}
    assert found.keys() == {offset for offset, reason in reasons.items() if reason is None}
    for offset, reason in reasons.items():
        if reason is not None:
            found[offset] = [Bad(reason) if reason else FILTERED]
    return [found[n][0] if len(found[n]) == 1 else tuple(found[n]) for n in range(len(values))]
