"""Columns that change, on each sink: refused or added, never dropped or narrowed, whoever writes at the same time."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DataType, DecimalType, StringType, StructField, StructType
from pyspark.sql.types import _parse_datatype_json_string as parse

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.sinks.evolution import Comparison, fits, sql_type
from tests.spark.sinks.conftest import A, B, Output, of_kinds, rows
from tests.spark.sinks.lab import Failed, Lab

OUTPUTS = ["files", "delta", "iceberg", "jdbc"]
TABLES = [kind for kind in OUTPUTS if kind != "files"]
ADD = {"evolve": "add"}
C = "0000000009-20261122T042057-p1q2"
every_output, every_table = of_kinds(OUTPUTS), of_kinds(TABLES)


def sql_name(output: Output) -> str:
    name = output.place["name"]
    return f"lake.db.{name}" if output.kind == "iceberg" else f"delta.`{output.place['root']}/{name}`"


def named(output: Output) -> str:
    """As the log has it."""
    if output.kind in ("files", "delta"):
        return f"Folder {output.place['root']}/{output.place['name']}"
    return f"Table {'public' if output.kind == 'jdbc' else 'lake.db'}.{output.place['name']}"


@every_output
def test_a_new_column_is_refused_before_anything_is_written_and_the_error_names_it_and_its_type(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0))
    before = output.ask("schema")
    with pytest.raises(
        Failed, match=r'InvalidRequest: .* has no column discount, and the rows have it as DECIMAL\(5,2\).*evolve="add"'
    ):
        output.write(B, rows(1), columns={"discount": "CAST(1.5 AS DECIMAL(5,2))"})
    assert output.ask("schema") == before
    assert list(output.view()) == [f"{A}/0"]


@every_output
def test_another_type_is_refused_in_both_modes_and_the_error_names_both(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0))
    for options in ({}, ADD):
        with pytest.raises(Failed, match=r"has the column id as INT, and the rows have it as STRING.* CAST it to INT"):
            output.write(B, rows(1), columns={"id": "'seven'"}, options=options)
    assert list(output.view()) == [f"{A}/0"]


@every_output
def test_a_wider_number_is_refused_where_columns_stay_as_they_are(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0))
    with pytest.raises(Failed, match="has the column id as INT, and the rows have it as BIGINT"):
        output.write(B, rows(1), columns={"id": "CAST(7 AS BIGINT)"})
    assert output.ask("schema")["id"] == "int"


@every_output
def test_a_new_column_is_added_and_said_and_an_older_batch_that_is_done_again_has_null_in_it(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of(kind)
    lab.ask("said")
    output.write(A, rows(0), options=ADD)
    output.write(B, rows(1), columns={"discount": "'five'"}, options=ADD)
    assert lab.ask("said") == [f"{named(output)}: new column discount STRING"]
    output.write(A, rows(0, value="again"), attempt=2, options=ADD)
    output.write(C, rows(2))  # evolve="fail": nothing is new
    assert output.ask("table", columns=["value", "discount"]) == [["again", None], ["v", "five"], ["v", None]]
    assert lab.ask("said") == []


@of_kinds([*OUTPUTS, "delta table"])
def test_a_column_that_the_rows_lack_is_null_and_is_not_dropped(kind: str, output_of: Callable[[str], Output]) -> None:
    output = output_of(kind)
    output.write(A, [[0, "2026-11-22", "v", 7]])
    output.write(B, [[1, "2026-11-22", "v", 8]], columns={"id": None})
    assert output.ask("table", columns=["offset", "id"]) == [["0", "7"], ["1", None]]
    if kind == "files":  # also in the folder that is written now
        folder = Path(output.place["root"]) / output.place["name"] / f"kafka_batch={B}"
        assert output.lab.ask("sql", statement=f"SELECT id FROM parquet.`{folder}`") == [[None]]


@every_table
def test_numbers_get_wider_and_a_narrower_number_is_cast_up_and_narrows_nothing(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of(kind)
    narrow = {"price": "CAST(1.5 AS FLOAT)", "amount": "CAST(1.25 AS DECIMAL(10,2))"}
    wide = {"id": "CAST(8 AS BIGINT)", "price": "CAST(2.5 AS DOUBLE)", "amount": "CAST(2.25 AS DECIMAL(12,2))"}
    output.write(A, rows(0), columns=narrow)
    lab.ask("said")
    output.write(B, rows(1), columns=wide, options=ADD)
    said = lab.ask("said")
    for change in (
        "column id is BIGINT now, and was INT",
        "column price is DOUBLE now, and was FLOAT",
        "column amount is DECIMAL(12,2) now, and was DECIMAL(10,2)",
    ):
        assert said.count(f"{named(output)}: {change}") == 1
    output.write(A, rows(0), attempt=2, columns={**narrow, "id": "CAST(5 AS SMALLINT)"})
    types = output.ask("schema")
    assert (types["id"], types["price"], types["amount"]) == ("bigint", "double", "decimal(12,2)")
    assert output.ask("table", columns=["id", "price", "amount"]) == [
        ["5", "1.5", "1.25"],
        ["8", "2.5", "2.25"],
    ]


@of_kinds(["delta", "iceberg", "files"])
def test_a_field_within_a_struct_and_a_list_is_added_and_rows_without_it_fit(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    old = {"who": "named_struct('a', 1)", "lines": "array(named_struct('n', 1))"}
    new = {"who": "named_struct('b', 'x', 'a', 2)", "lines": "array(named_struct('n', 2, 'sku', 's'))"}
    output.write(A, rows(0), columns=old)
    with pytest.raises(Failed, match=r"has no column who\.b, and the rows have it as STRING"):
        output.write(B, rows(1), columns=new)
    output.write(B, rows(1), columns=new, options=ADD)
    output.write(C, rows(2), columns={**old, "lines": "CAST(NULL AS ARRAY<STRUCT<n: INT>>)"})
    assert output.ask("table", columns=["who.a", "who.b", "lines[0].n", "lines[0].sku"]) == [
        ["1", None, "1", None],
        ["2", "x", "2", "s"],
        ["1", None, None, None],
    ]


@every_output
def test_two_drivers_that_add_the_same_column_at_the_same_time_both_succeed(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    """The second one adds it after the first has compared, and before it adds."""
    output = output_of(kind)
    output.write(A, rows(0))
    more: dict[str, Any] = {"columns": {"discount": "'five'"}, "options": ADD}
    other = {"do": "write", **output.command(B, rows(2), split=1, **more)}
    done = output.write(B, rows(1), on_look={"meanwhile": [other]}, **more)
    assert "ok" in done["meanwhile"][0], done
    assert output.ask("table", columns=["discount"]) == [[None], ["five"], ["five"]]


@every_output
def test_drivers_that_add_columns_all_at_once_lose_none(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of(kind)
    output.write(A, rows(0))
    splits = [
        {"do": "write", **output.command(B, rows(n), split=n, columns={"both": "1", f"c{n}": f"{n}"}, options=ADD)}
        for n in (1, 2)
    ]
    done = lab.ask("together", commands=splits)
    assert all("ok" in answer for answer in done), done
    assert output.ask("table", columns=["both", "c1", "c2"]) == [[None] * 3, ["1", "1", None], ["1", None, "2"]]


@every_table
def test_a_column_that_another_driver_adds_after_the_last_comparison_is_null(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0))
    newer = {"do": "write", **output.command(B, rows(2), split=1, columns={"discount": "'five'"}, options=ADD)}
    done = output.write(B, rows(1), on_look={"meanwhile": [newer]})
    assert "ok" in done["meanwhile"][0], done
    assert output.ask("table", columns=["discount"]) == [[None], [None], ["five"]]


@every_table
def test_a_late_driver_narrows_nothing_that_a_newer_one_has_widened(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0), columns={"amount": "CAST(1 AS DECIMAL(5,2))"})
    newer = {
        "do": "write",
        **output.command(B, rows(2), split=1, columns={"amount": "CAST(2 AS DECIMAL(20,2))"}, options=ADD),
    }
    late = {"amount": "CAST(3 AS DECIMAL(10,2))"}
    done = output.write(B, rows(1), on_look={"meanwhile": [newer]}, columns=late, options=ADD)
    assert "ok" in done["meanwhile"][0], done
    assert output.ask("schema")["amount"] == "decimal(20,2)"
    assert output.ask("table", columns=["amount"]) == [["1.00"], ["3.00"], ["2.00"]]


@every_output
def test_a_late_driver_whose_new_column_has_another_type_is_refused(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0))
    newer = {"do": "write", **output.command(B, rows(2), split=1, columns={"discount": "'five'"}, options=ADD)}
    with pytest.raises(Failed, match="has the column discount as STRING, and the rows have it as INT"):
        output.write(B, rows(1), on_look={"meanwhile": [newer]}, columns={"discount": "5"}, options=ADD)
    assert output.ask("table", columns=["discount"]) == [[None], ["five"]]
    assert output.write(B, rows(1), attempt=2, columns={"discount": "'5'"}, options=ADD)["read"]


@of_kinds(["delta", "iceberg"])
def test_a_column_is_added_while_another_driver_is_in_the_middle_of_its_write(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of(kind)
    output.write(A, rows(9))
    gate = f"{output.place['root']}/{output.place['name']}"
    slow = output.command(B, rows(0, 1), fault={"on": "row", "how": "gate", "at": 0, "gate": gate})
    adds = {"do": "write", **output.command(B, rows(2), split=1, columns={"discount": "'five'"}, options=ADD)}
    done = lab.ask("together", commands=[{"do": "write", **slow}, {"do": "after_gate", "gate": gate, "command": adds}])
    assert "ok" in done[0], done
    assert "ok" in done[1]["ok"], done
    assert output.ask("table", columns=["discount"]) == [[None], [None], ["five"], [None]]


@every_table
def test_a_column_that_must_not_be_null_and_that_the_rows_lack_is_named(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of(kind)
    columns = (
        "kafka_batch {}, kafka_split INT, topic {}, {} INT, {} BIGINT, dt DATE, value {}, id INT, must {} NOT NULL"
    )
    if kind == "jdbc":
        made = columns.format("text", "text", '"partition"', '"offset"', "text", "text")
        lab.ask("database", place=output.place, statement=f"CREATE TABLE {output.place['name']} ({made})")
    else:
        made = columns.format("STRING", "STRING", "partition", "offset", "STRING", "STRING")
        full = "'write.metadata.metrics.column.kafka_batch' = 'full'"
        lab.ask("sql", statement=f"CREATE TABLE {sql_name(output)} ({made}) USING {kind} TBLPROPERTIES ({full})")
    with pytest.raises(Failed, match=r"(?i)column must.* NOT NULL"):
        output.write(A, rows(0))
    assert output.view() == {}
    output.write(A, rows(0), columns={"must": "'there'"})
    assert output.ask("table", columns=["must"]) == [["there"]]


@of_kinds(["upsert delta", "upsert jdbc"])
def test_a_table_of_the_newest_records_takes_narrower_numbers_and_refuses_a_new_column(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, [[0, "2026-11-22", "v", 1]], columns={"amount": "CAST(1 AS BIGINT)"})
    output.write(B, [[1, "2026-11-22", "w", 1]], columns={"amount": "2"})
    assert output.ask("table", columns=["value", "amount"]) == [["w", "2"]]
    with pytest.raises(Failed, match="has no column discount"):
        output.write(C, [[2, "2026-11-22", "x", 1]], columns={"amount": "3", "discount": "5"})


def test_a_file_s_column_gets_no_other_type_because_readers_of_both_fail(output_of: Callable[[str], Output]) -> None:
    output = output_of("files")
    output.write(A, rows(0))
    with pytest.raises(Failed, match=r"id as INT, and .* BIGINT.*Readers fail where files have two types"):
        output.write(B, rows(1), columns={"id": "CAST(7 AS BIGINT)"}, options=ADD)
    assert output.write(B, rows(1), columns={"id": "CAST(7 AS TINYINT)"}, options=ADD)["read"] == [
        [1, "2026-11-22", "v", 7]
    ]
    assert output.ask("table", columns=["id"]) == [[None], ["7"]]


@pytest.mark.parametrize("format", ["orc", "json"])
def test_files_of_other_formats_get_new_columns_that_their_readers_find(
    format: str, output_of: Callable[[str], Output]
) -> None:
    output, options = output_of("files"), {"format": format, "evolve": "add"}
    output.write(A, rows(0), options=options)
    output.write(B, rows(1), columns={"discount": "'five'"}, options=options)
    output.write(A, rows(0), attempt=2, options=options)
    folder = f"{output.place['root']}/{output.place['name']}"
    view = f"CREATE TEMP VIEW v_{format} USING {format} OPTIONS (path '{folder}', mergeSchema 'true')"
    output.lab.ask("sql", statement=view)
    found = output.lab.ask("sql", statement=f"SELECT offset, discount FROM v_{format} ORDER BY offset")
    assert found == [["0", None], ["1", "five"]]


def test_csv_gets_no_new_column_and_a_column_that_the_rows_lack_stays_in_its_place(
    output_of: Callable[[str], Output],
) -> None:
    output, options = output_of("files"), {"format": "csv", "evolve": "add"}
    output.write(A, rows(0), options=options)
    with pytest.raises(Failed, match="Readers of CSV find columns by their position"):
        output.write(B, rows(1), columns={"discount": "'five'"}, options=options)
    output.write(B, rows(1), columns={"value": None, "topic": None}, options=options)
    output.write(B, rows(1), split=1, columns={"topic": None, "value": "'last'", "id": "8"}, options=options)
    folder = Path(output.place["root"]) / output.place["name"]
    lines = sorted(path.read_text().strip() for path in folder.rglob("*.csv"))
    assert [line for line in lines if line] == [
        ",0,1,2026-11-22,,",
        ",0,1,2026-11-22,last,8",
        "orders,0,0,2026-11-22,v,",
    ]


def test_files_that_failed_before_they_were_in_their_place_leave_no_column_on_record(
    output_of: Callable[[str], Output],
) -> None:
    output = output_of("files")
    with pytest.raises(Failed, match="attempt 9 has begun"):
        output.write(A, rows(0), columns={"id": "'a wrong type'"}, on_look={"raise": "attempt 9 has begun"})
    output.write(A, rows(0), attempt=2)
    assert output.ask("schema")["id"] == "int"


def test_a_batch_that_alone_is_there_may_be_done_again_with_other_types_and_the_next_has_to_fit_these(
    output_of: Callable[[str], Output],
) -> None:
    """A schema that was wrong is corrected after the first batch."""
    output = output_of("files")
    output.write(A, rows(0), columns={"amount": "1"})
    output.write(A, rows(0), attempt=2, columns={"amount": "'1'", "more": "2"})
    with pytest.raises(Failed, match="has the column amount as STRING, and the rows have it as INT"):
        output.write(B, rows(1), columns={"amount": "1"})
    output.write(B, rows(1), columns={"amount": "'2'"})
    assert output.ask("table", columns=["amount", "more"]) == [["1", "2"], ["2", None]]
    with pytest.raises(Failed, match="has the column amount as STRING, and the rows have it as INT"):
        output.write(A, rows(0), attempt=3, columns={"amount": "1"})


def test_rows_without_a_column_of_partition_by_are_refused(output_of: Callable[[str], Output]) -> None:
    """Null would be a folder of its own, which nobody has asked for."""
    output = output_of("files by date")
    output.write(A, rows(0))
    with pytest.raises(Failed, match="partition_by has dt, and the rows do not"):
        output.write(B, rows(1), columns={"dt": None})


INT, BIGINT, DOUBLE = (parse(json.dumps(name)) for name in ("integer", "long", "double"))
FLOAT, SMALLINT = (parse(json.dumps(name)) for name in ("float", "short"))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (SMALLINT, INT),
        (INT, BIGINT),
        (FLOAT, DOUBLE),
        (BIGINT, DecimalType(19, 0)),
        (INT, DecimalType(12, 2)),
        (DecimalType(10, 2), DecimalType(12, 2)),
        (DecimalType(10, 2), DecimalType(12, 4)),
    ],
    ids=str,
)
def test_of_two_types_the_wider_one_holds_the_narrower_and_not_the_other_way(narrow: DataType, wide: DataType) -> None:
    assert fits(narrow, wide)
    assert fits(narrow, narrow)
    assert not fits(wide, narrow)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BIGINT, DOUBLE),
        (BIGINT, DecimalType(18, 0)),
        (DecimalType(10, 2), DecimalType(11, 4)),
        (INT, StringType()),
        (DOUBLE, DecimalType(38, 18)),
    ],
    ids=str,
)
def test_types_of_which_neither_holds_the_other_are_a_problem(one: DataType, other: DataType) -> None:
    assert not fits(one, other)
    compared = Comparison("out", StructType([StructField("c", one)]), StructType([StructField("C", other)]))
    with pytest.raises(
        InvalidRequest, match=re.escape(f"c as {sql_type(one)}, and the rows have it as {sql_type(other)}")
    ):
        compared.require("add")


def test_a_decimal_with_another_scale_widens_no_column() -> None:
    compared = Comparison(
        "out", StructType([StructField("c", DecimalType(10, 2))]), StructType([StructField("c", DecimalType(12, 4))])
    )
    with pytest.raises(InvalidRequest, match="neither holds the other"):
        compared.require("add")


def test_names_are_quoted_at_every_depth() -> None:
    kind = ArrayType(StructType([StructField("a b", INT), StructField("c`d", StringType())]))
    assert sql_type(kind) == "ARRAY<STRUCT<`a b`: INT, `c``d`: STRING>>"


def test_columns_that_differ_in_case_alone_are_refused() -> None:
    twice = StructType([StructField("a", INT), StructField("A", INT)])
    with pytest.raises(InvalidRequest, match="more than once"):
        Comparison("out", StructType([StructField("a", INT)]), twice).require("add")
