"""What an upsert into PostgreSQL has to see to itself: names, and two splits at the same time."""

from collections.abc import Callable

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.sinks import jdbc
from tests.spark.sinks.conftest import A, B, Output
from tests.spark.sinks.lab import Failed
from tests.spark.sinks.test_upsert import DELETES, newest, record

KIND = "upsert jdbc"


def test_a_key_that_another_partition_puts_in_at_the_same_moment_is_refused(
    output_of: Callable[[str], Output],
) -> None:
    output = output_of(KIND)
    output.write(A, [record(9, 0, "z")])
    other = {"do": "write", **output.command(A, [record(1, 7, "of partition 1", partition=1)], split=1)}
    with pytest.raises(Failed, match="two partitions"):
        output.write(A, [record(1, 5, "of partition 0"), record(2, 6, "b")], before_insert=[other])
    assert newest(output) == {9: (0, "z"), 1: (7, "of partition 1")}


def test_a_name_that_the_database_would_cut_off_is_refused() -> None:
    url = "jdbc:postgresql://db:5432/lake"
    jdbc(url, "t" * 63)
    with pytest.raises(InvalidRequest, match="64 bytes, and PostgreSQL cuts it off after 63"):
        jdbc(url, f"sales.{'t' * 64}")


def test_a_key_is_found_whatever_the_case_of_its_column(output_of: Callable[[str], Output]) -> None:
    output = output_of(KIND)
    for attempt in (1, 2):
        output.write(A, [record(1, 0, "a"), record(1, 1, "b")], attempt=attempt, columns={"ID": "id"})
    assert output.ask("table", columns=["id", "offset", "value"]) == [["1", "1", "b"]]


def test_a_column_that_the_rows_lack_keeps_nothing_of_an_older_record(output_of: Callable[[str], Output]) -> None:
    output = output_of(KIND)
    output.write(A, [record(1, 0, "a"), record(2, 1, "b")], columns={**DELETES, "name": "'of before'"})
    output.write(B, [record(1, 2, "gone"), record(2, 3, "c")], columns=DELETES)
    found = output.ask("table", columns=["id", "value", "name", "kafka_deleted"])
    assert found == [["1", None, None, "True"], ["2", "c", None, "False"]]
