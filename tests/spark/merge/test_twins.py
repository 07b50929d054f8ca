"""What a merge could leave out, one at a time: a scene ends wrong without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark import entity, history, merge
from airflow_kafka_offsets.spark.commits import Commits
from airflow_kafka_offsets.spark.entity import Query
from airflow_kafka_offsets.spark.merge import Changes, Merge
from tests.spark.merge.logs import Log
from tests.spark.merge.scenes import play

pytestmark = pytest.mark.slow

Patch = Callable[[pytest.MonkeyPatch], None]


def of_query(**other: Any) -> Patch:
    """The query has other members."""
    of = Query.of.__func__  # type: ignore[attr-defined]

    def patch(patching: pytest.MonkeyPatch) -> None:
        patching.setattr(Query, "of", classmethod(lambda cls, job: replace(of(cls, job), **other)))

    return patch


def of_changes(change: Callable[[Changes], Changes]) -> Patch:
    """The merge takes other things for changes."""
    found = Merge.changes

    def changes(self: Merge, *of: Any) -> Changes | None:
        answer = found(self, *of)
        return None if answer is None else change(answer)

    return lambda patching: patching.setattr(Merge, "changes", changes)


def of_counts(counts: Callable[[Commits, str, int | None], bool]) -> Patch:
    return lambda patching: patching.setattr(Commits, "counts", counts)


def of_fill(value: Callable[[Column, Column, Column], Column], order: Callable[[], Column] | None = None) -> Patch:
    """Another last known value, from the column, the placeholder and whether the row is a delete."""

    def last_known(name: str, unknown: Column) -> Column:
        column, is_delete = f.col(name), f.col("kafka_delete")
        by = f.struct("kafka_logged", "kafka_position") if order is None else order()
        return f.max_by(f.struct(value(column, unknown, is_delete).alias("value")), f.when(known(column, unknown), by))

    known = lambda column, unknown: f.col("kafka_delete") | ~column.eqNullSafe(unknown)  # noqa: E731
    return lambda patching: patching.setattr(entity, "_last_known", last_known)


def null_is_no_value(patching: pytest.MonkeyPatch) -> None:
    def last_known(name: str, unknown: Column) -> Column:
        column, is_delete = f.col(name), f.col("kafka_delete")
        value = f.struct(f.when(is_delete, unknown).otherwise(column).alias("value"))
        by = f.struct("kafka_logged", "kafka_position")
        return f.max_by(value, f.when(is_delete | (column != unknown), by))

    patching.setattr(entity, "_last_known", last_known)


def no_cuts(patching: pytest.MonkeyPatch) -> None:
    cut = entity._cut
    patching.setattr(entity, "_cut", lambda every: cut(every.where(f"NOT {entity.TRUNCATE}")))


def old_truncates_forgotten(patching: pytest.MonkeyPatch) -> None:
    rows = Query.rows

    def of_keys(self: Query, keys: DataFrame, log_rows: DataFrame, entity_rows: DataFrame | None) -> DataFrame:
        return rows(self, keys, log_rows.join(keys, list(self.keys), "left_semi").select(log_rows.columns), entity_rows)

    patching.setattr(Query, "rows", of_keys)


def rows_of_corrected_batches_stand_in(patching: pytest.MonkeyPatch) -> None:
    """As if they were of no batch."""
    at = Merge._at

    def of_none(self: Merge, spark: SparkSession, table: Any, place: Any) -> DataFrame:
        rows = at(self, spark, table, place)
        return rows.withColumn("kafka_batch", f.lit(None).cast("string")) if table is self.table else rows

    patching.setattr(Merge, "_at", of_none)


def no_fence(patching: pytest.MonkeyPatch) -> None:
    """It publishes whatever happened since it pinned the table."""
    publish = Merge.publish

    def late(self: Merge, found: DataFrame, changes: Changes) -> None:
        publish(self, found, replace(changes, pinned=self.pin(found.sparkSession)[0]))

    patching.setattr(Merge, "publish", late)


def the_log_first(patching: pytest.MonkeyPatch) -> None:
    """A merge looks at the log table, and then pins the entity table that others have merged into meanwhile."""
    pin, changes, seen = Merge.pin, Merge.changes, list[list[Any]]()

    def look_and_pin(self: Merge, spark: SparkSession) -> Any:
        seen.append([*history.commits(spark, self.log)])
        return pin(self, spark)

    def pin_late(self: Merge, spark: SparkSession, pipeline: Commits, *_: Any) -> Changes | None:
        pinned = pin(self, spark)
        with pytest.MonkeyPatch.context() as inner:
            stale = seen.pop()
            inner.setattr(merge, "commits", lambda *_: iter(stale))
            return changes(self, spark, pipeline, *pinned)

    patching.setattr(Merge, "pin", look_and_pin)
    patching.setattr(Merge, "changes", pin_late)


def receipt_outlives_a_restore(patching: pytest.MonkeyPatch) -> None:
    """The last receipt that was ever written counts."""
    last: dict[str, Any] = {}
    pin, publish = Merge.pin, Merge.publish

    def pinned(self: Merge, spark: SparkSession) -> Any:
        head, receipt = pin(self, spark)
        return head, last.get("receipt", receipt)

    def published(self: Merge, found: DataFrame, changes: Changes) -> None:
        publish(self, found, changes)
        last["receipt"] = pin(self, found.sparkSession)[1]

    patching.setattr(Merge, "pin", pinned)
    patching.setattr(Merge, "publish", published)


def receipt_in_its_own_commit(patching: pytest.MonkeyPatch) -> None:
    def publish(self: Merge, spark: SparkSession, text: str, receipt: Any) -> None:
        spark.sql(text.format(self.table.name))
        spark.sql("SELECT 'before fast_forward'")
        nothing = spark.table(self.table.name).limit(0).writeTo(self.table.name)
        nothing.option(f"snapshot-property.{history.MERGED}", json.dumps(receipt)).append()

    patching.setattr(Merge, "_publish_iceberg", publish)


def is_fast(changes: Changes) -> Changes:
    return replace(changes, former=None)


def without_old_keys(changes: Changes) -> Changes:
    return replace(changes, former=None if changes.former is None else changes.former.limit(0))


def without_open(changes: Changes) -> Changes:
    return replace(changes, open={})


TWINS: dict[str, tuple[str, Patch]] = {
    "never_the_whole_log": ("corrected", of_changes(is_fast)),
    "without_a_batch's_former_keys": ("corrected", of_changes(without_old_keys)),
    "rows_of_corrected_batches_stand_in": ("corrected", rows_of_corrected_batches_stand_in),
    "placeholder_is_a_value": ("placeholders", of_query(placeholder=None)),
    "null_is_no_value": ("placeholders", null_is_no_value),
    "a_delete_fills_with_what_was_before": ("placeholders", of_fill(lambda c, u, d: f.coalesce(c, f.lit("y")))),
    "the_entity_table's_value_first": (
        "placeholders",
        of_fill(
            lambda c, u, d: f.when(d, u).otherwise(c), lambda: f.struct(~f.col("kafka_logged"), f.col("kafka_position"))
        ),
    ),
    "truncates_ignored": ("truncated", no_cuts),
    "old_truncates_forgotten": ("truncated", old_truncates_forgotten),
    "tombstones_ignored": ("tombstones", of_query(delete_when="kafka_op = 'd'")),
    "uncommitted_rows": ("left_open", of_counts(lambda *_: True)),
    "the_receipt_passes_open_batches": ("left_open", of_changes(without_open)),
    "any_attempt": ("written_again", of_counts(lambda *_: True)),
    "batch_order_across_partitions": ("two_partitions", of_query(order_by=("kafka_batch", "offset"))),
    "never_the_whole_log_with_order_by": ("two_partitions", of_changes(is_fast)),
    "no_fence": ("overtaken", no_fence),
    "the_log_pinned_first": ("log_moves", the_log_first),
    "the_receipt_in_its_own_commit": ("killed_before_its_receipt", receipt_in_its_own_commit),
    "the_receipt_outlives_a_restore": ("restored", receipt_outlives_a_restore),
}


@pytest.mark.parametrize("twin", TWINS)
def test_without_it_a_scene_ends_wrong(spark: SparkSession, tmp_path: Path, twin: str) -> None:
    scene, patch = TWINS[twin]
    log = Log(spark, tmp_path, "iceberg")
    with pytest.MonkeyPatch.context() as patching:
        patch(patching)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            play(log, scene)
