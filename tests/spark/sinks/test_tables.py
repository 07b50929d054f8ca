"""What is particular to tables: columns that change, tables made elsewhere, writers at the same time."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.errors import InvalidJob, OtherOutput
from tests.spark.plans import LOG
from tests.spark.sinks.outputs import COLUMNS, A, B, C, Output, rows

pytestmark = pytest.mark.long

Make = Callable[..., Output]


def evolving(output: Output) -> Output:
    return Output(output.spark, replace(output.sink, evolve="add"))


@pytest.mark.parametrize("table", [pytest.param("delta", marks=pytest.mark.slow), "iceberg"], indirect=True)
def test_a_table_gets_columns_and_inner_fields_if_it_may(output_of: Make, table: str) -> None:
    output = output_of(table)
    old = output.frame(rows(0)).selectExpr("*", "named_struct('a', 1L) s", "array(named_struct('a', 1L)) l")
    output.write(A, old)
    new = old.selectExpr("offset", "day", "topic", "partition", "1.5D AS `odd-name`", "value").selectExpr(
        "*", "named_struct('b', 'x', 'a', 2L) s", "array(named_struct('a', 3L, 'b', 'y')) l"
    )
    with pytest.raises(
        InvalidJob, match=r"`odd-name` is not in the table; `s`\.`b` is not .*; `l`\.element\.`b` is not"
    ):
        output.write(B, new)
    evolving(output).write(B, new)
    found = {row["kafka_batch"]: row for row in output.read().collect()}
    assert (found[A]["odd-name"], found[A]["s"]["b"], found[A]["l"][0]["b"]) == (None, None, None)
    assert (found[B]["odd-name"], found[B]["s"], found[B]["l"]) == (1.5, SparkRow(a=2, b="x"), [SparkRow(a=3, b="y")])
    output.write(A, old, attempt=2)  # an older job's rows fit, too
    assert output.offsets(A) == [0]


def test_a_table_that_another_driver_is_creating_is_waited_for(
    output_of: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder has a ``_delta_log`` and no commit yet, so that Delta creates no table there."""
    output = output_of("delta")
    output.write(A, output.frame(rows(0)))
    place = Path(str(output.sink.path).removeprefix("file:"))
    made = place.rename(place.with_name("made"))
    (place / "_delta_log").mkdir(parents=True)
    output.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]

    class OtherDriver(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "Another driver is creating" in record.getMessage() and made.exists():
                (place / "_delta_log").rmdir()
                place.rmdir()
                made.rename(place)

    logger, other = logging.getLogger("airflow_kafka_offsets"), OtherDriver()
    caplog.set_level("INFO", logger.name)
    logger.addHandler(other)
    try:
        output.write(B, output.frame(rows(1)))
    finally:
        logger.removeHandler(other)
    assert (output.offsets(A), output.offsets(B), made.exists()) == ([0], [1], False)


LOST = (
    "offset + 0.5D AS offset",
    "'x' AS offset",
    "CAST(offset AS DECIMAL(20,0)) AS offset",
    "named_struct('a', 1, 'c', 2) AS s",
    "named_struct('a', 1L) AS s",
)


def test_rows_that_would_lose_something_are_refused_and_nothing_is_written(output_of: Make, table: str) -> None:
    output = output_of(table)
    output.write(A, output.frame(rows(0)).selectExpr("*", "named_struct('a', 1) AS s"))
    for lost in LOST:
        value, _, column = lost.rpartition(" AS ")
        fitting = output.frame(rows(1)).selectExpr("*", "named_struct('a', 1) AS s")
        with pytest.raises(InvalidJob, match=f"`{column}`.*in the table"):
            output.write(B, fitting.withColumn(column, f.expr(value)))
    assert output.offsets(B) == []


def test_narrower_numbers_fewer_columns_and_another_order_fit(output_of: Make, table: str) -> None:
    output = output_of(table)
    output.write(A, output.frame(rows(0)).selectExpr("*", "1L AS n", "CAST(1 AS DECIMAL(12,2)) AS d"))
    output.write(
        B, output.frame(rows(1)).selectExpr("1 AS n", "topic", "CAST(2 AS DECIMAL(10,2)) AS D", "partition", "offset")
    )
    found = output.read().where(f"kafka_batch = '{B}'").collect()
    assert [(row["n"], int(row["d"]), row["offset"], row["value"]) for row in found] == [(1, 2, 1, None)]


def test_a_delta_table_fills_in_its_own_defaults(output_of: Make) -> None:
    output = output_of("delta")
    output.write(A, rows(0))
    feature = "SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    for change in (feature, "ALTER COLUMN value SET DEFAULT 'none'"):
        output.spark.sql(f"ALTER TABLE {output.sink.name} {change}")
    output.write(B, output.frame(rows(1)).drop("value"))
    assert {row["offset"]: row["value"] for row in output.read().collect()} == {0: "v", 1: "none"}


def test_a_table_made_elsewhere_needs_the_keys_column_and_is_marked_with_the_first_batch(
    output_of: Make, table: str
) -> None:
    output = output_of(table)
    output.spark.sql(f"CREATE TABLE {output.sink.name} ({COLUMNS}) USING {table}")
    with pytest.raises(InvalidJob, match="no column kafka_batch") as raised:
        output.sink.write(output.batch(A), output.frame(rows(0)))
    output.spark.sql(raised.value.remedy)
    if table == "iceberg":
        with pytest.raises(InvalidJob, match=r"truncate\(16\): looking for a batch would read them all") as raised:
            output.write(A, rows(0))
        output.spark.sql(raised.value.remedy)
    output.write(A, rows(0))
    output.write(A, rows(1), attempt=2)
    assert output.offsets(A) == [1]
    if table == "delta":  # else it would keep the transaction of each batch for ever
        found = output.spark.sql(f"SHOW TBLPROPERTIES {output.sink.name}").collect()
        assert ("delta.setTransactionRetentionDuration", "interval 30 days") in {(row[0], row[1]) for row in found}
    with pytest.raises(OtherOutput, match=r"'orders'.*'payments'"):
        output.sink.check(output.spark, output.batch(B, pipeline="payments").plan)


def test_a_pipeline_whose_name_looks_like_a_secret_to_spark_finds_its_table(output_of: Make, table: str) -> None:
    """Spark hides values of properties that have ``url`` in them, as ``hourly`` has."""
    output = output_of(table)
    mark = f"'kafka_offsets.pipeline' = 'orders_hourly', 'kafka_offsets.log' = '{LOG}'"
    properties = f"{mark}, 'write.metadata.metrics.column.kafka_batch' = 'full'"
    columns = f"{COLUMNS}, kafka_batch STRING"
    output.spark.sql(f"CREATE TABLE {output.sink.name} ({columns}) USING {table} TBLPROPERTIES ({properties})")
    output.sink.check(output.spark, output.batch(A, pipeline="orders_hourly").plan)


@pytest.mark.parametrize(("made", "asked"), [("delta", "iceberg"), ("iceberg", "delta"), ("parquet", "delta")])
def test_a_table_of_another_format_is_refused(output_of: Make, tmp_path: Path, made: str, asked: str) -> None:
    name = f"{'lake.db' if made == 'iceberg' else 'default'}.{tmp_path.name}"
    output = output_of(asked, path=None, table=name)
    output.spark.sql(f"CREATE TABLE {name} (kafka_batch STRING, {COLUMNS}) USING {made}")
    with pytest.raises(InvalidJob, match=f"not of the format {asked}"):
        output.sink.check(output.spark, output.batch(A).plan)


def test_a_delta_table_on_s3_needs_a_log_store_that_excludes_a_second_driver(output_of: Make) -> None:
    output = output_of("delta", path="s3a://lake/orders")
    with pytest.raises(InvalidJob, match=r"spark.delta.logStore.s3a.impl=io.delta.storage.S3DynamoDBLogStore"):
        output.sink.check(output.spark, output.batch(A).plan)


def test_a_delta_table_is_not_made_among_files_of_others(output_of: Make, tmp_path: Path) -> None:
    output, path = output_of("delta"), tmp_path / "delta"
    path.mkdir()
    (path / "part-0.parquet").write_bytes(b"")
    with pytest.raises(OtherOutput, match=r"part-0\.parquet"):
        output.sink.check(output.spark, output.batch(A).plan)
    with pytest.raises(OtherOutput, match=r"part-0\.parquet"):
        output.sink.write(output.batch(A), output.frame(rows(0)))
    assert [p.name for p in path.iterdir()] == ["part-0.parquet"]


def test_a_delta_table_inside_of_another_one_or_around_it_is_refused(output_of: Make, tmp_path: Path) -> None:
    """Bad records in `/lake/orders/bad`, where `/lake/orders` has the rows: readers of the one would see both."""
    output_of("delta", path=f"{tmp_path}/around").write(A, rows(0))
    (tmp_path / "link").symlink_to(tmp_path / "around")
    for inside in ("around/bad", "around/in/it", "link/bad"):
        output = output_of("delta", path=f"{tmp_path}/{inside}")
        with pytest.raises(OtherOutput, match="around, which is a table itself"):
            output.sink.check(output.spark, output.batch(A).plan)
        assert not (tmp_path / inside).exists()
    output_of("delta", path=f"{tmp_path}/outside/bad").write(A, rows(0))
    with pytest.raises(OtherOutput, match="bad, which no batch has written"):
        output_of("delta", path=f"{tmp_path}/outside").write(A, rows(0))


def compact(output: Output) -> None:
    name = output.sink.name.replace("`", "").removeprefix("lake.")
    call = f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    output.spark.sql(f"OPTIMIZE {output.sink.name}" if output.sink.format == "delta" else call).collect()


def test_a_batch_in_a_compacted_file_is_replaced_and_a_gap_is_filled(output_of: Make, table: str) -> None:
    """B lies between two batches that share a file: its bounds enclose the key."""
    output = output_of(table)
    output.write(A, rows(0))
    output.write(C, rows(1))
    compact(output)
    output.write(B, rows(5))
    compact(output)
    output.write(A, rows(2, 3), attempt=2)
    output.write(B, [], attempt=2)
    assert [output.offsets(key) for key in (A, B, C)] == [[2, 3], [], [1]]


@pytest.mark.parametrize("table", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)], indirect=True)
def test_four_windows_that_are_written_at_the_same_time_are_all_there(output_of: Make, table: str) -> None:
    """Also the creation of the table, and a column that each of them adds."""
    output = evolving(output_of(table, partition_by=["day"]))
    keys = [f"{number:010}-3f9a01c2d4e5" for number in range(1, 5)]
    own = {key: Output(output.spark.newSession(), output.sink) for key in keys}  # as drivers have
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: own[key].write(key, rows(*range(int(key[:10])))), keys))

        def more(key: str) -> None:
            own[key].write(key, own[key].frame(rows(100)).selectExpr("*", "1 AS n"), attempt=2)

        list(pool.map(more, keys[:2]))
    assert [output.offsets(key) for key in keys] == [[100], [100], [0, 1, 2], [0, 1, 2, 3]]


def test_looking_for_a_key_reads_the_files_of_that_key_only(output_of: Make, table: str) -> None:
    output = output_of(table)
    for key in (A, B, C):
        output.write(key, output.frame(rows(0, 1)).coalesce(1))
    assert files_read(output.sink.rows_of(output.batch(B))) == 1


def files_read(frame: Any) -> int:
    """How many data files the scan has read, by its own metrics."""
    execution = frame._jdf.queryExecution()
    execution.executedPlan().executeCollect()
    counts: dict[str, int] = {}

    def walk(plan: Any) -> None:
        entries = plan.metrics().iterator()
        while entries.hasNext():
            entry = entries.next()
            counts[entry._1()] = entry._2().value()
        children = plan.children().iterator()
        while children.hasNext():
            walk(children.next())

    walk(execution.executedPlan())
    return counts.get("numFiles", counts.get("resultDataFiles", -1))
