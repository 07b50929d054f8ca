"""A sink in a few words, and the same sink from a job's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.sinks import delta, files, iceberg, jdbc
from airflow_kafka_offsets.spark.sinks.jdbc_sink import JdbcSink
from airflow_kafka_offsets.spark.sinks.sink_arguments import (
    formats_of_arguments,
    sink_arguments,
    sink_into,
    sink_of,
    words_of_arguments,
)

POSTGRES = "jdbc:postgresql://db:5432/lake"
SINKS: list[tuple[dict[str, Any], Any]] = [
    ({"format": "parquet", "path": "/lake/orders"}, files("/lake/orders")),
    (
        {
            "format": "csv",
            "path": "s3://lake/x",
            "partition_by": ["topic", "dt"],
            "options": {"header": True, "sep": "="},
        },
        files("s3://lake/x", "csv", ["topic", "dt"], {"header": True, "sep": "="}),
    ),
    ({"format": "delta", "path": "/lake/orders", "mode": "append"}, delta("/lake/orders", mode="append")),
    ({"format": "delta", "table": "db.orders", "partition_by": ["dt"]}, delta(table="db.orders", partition_by=["dt"])),
    ({"format": "iceberg", "table": "lake.db.orders"}, iceberg("lake.db.orders")),
    ({"format": "parquet", "path": "/lake/orders", "evolve": "add"}, files("/lake/orders", evolve="add")),
    ({"format": "delta", "path": "/lake/orders", "evolve": "add"}, delta("/lake/orders", evolve="add")),
    ({"format": "iceberg", "table": "lake.orders", "evolve": "fail"}, iceberg("lake.orders", evolve="fail")),
    (
        {"format": "iceberg", "table": "lake.db.orders", "partition_by": ["days(timestamp)"]},
        iceberg("lake.db.orders", ["days(timestamp)"]),
    ),
]


@pytest.mark.parametrize(("words", "sink"), SINKS, ids=str)
def test_the_words_and_the_jobs_arguments_make_the_same_sink(words: dict[str, Any], sink: Any) -> None:
    arguments = ["--plan", "x", *sink_arguments(words), "--split", "0"]
    assert sink_of(words) == sink
    assert sink_of(words_of_arguments(arguments)) == sink
    assert formats_of_arguments(arguments) == {words["format"]}
    assert not [argument for argument in arguments if "{{" in argument or "}}" in argument]


def test_a_database_is_chosen_by_its_url_and_table() -> None:
    options = {"batchsize": 5}
    words = {"format": "jdbc", "url": POSTGRES, "table": "public.orders", "options": options, "evolve": "add"}
    for sink in (sink_of(words), sink_of(words_of_arguments(sink_arguments(words)))):
        assert sink.output == jdbc(POSTGRES, "public.orders").output
        assert isinstance(sink, JdbcSink)
        assert sink.evolve == "add"


INTO: list[tuple[dict[str, Any], dict[str, Any] | None, str]] = [
    ({"path": "/lake/2"}, {"path": "/lake/1"}, "/lake/1"),
    ({"path": "s3://lake/2"}, {"path": "s3://lake/1"}, "s3a://lake/1"),
    ({"path": "hdfs://lake/2"}, None, "s3a://lake/1"),
    ({"format": "delta", "table": "lake.d2"}, {"table": "lake.d1"}, "delta:lake.d1"),
    ({"format": "delta", "path": "/lake/2"}, {"path": "/lake/1"}, "/lake/1"),
    ({"format": "iceberg", "table": "lake.db.d2"}, {"table": "lake.db.d1"}, "iceberg:lake.db.d1"),
    ({"format": "iceberg", "table": "lake.db.D2"}, None, "iceberg:lake.db.d1"),
    ({"format": "jdbc", "url": POSTGRES, "table": "d2"}, {"table": "public.d1"}, f"{POSTGRES}:public.d1"),
    ({"format": "jdbc", "url": POSTGRES, "table": "d2"}, None, "jdbc:postgresql://another:5432/lake:public.d2"),
]


@pytest.mark.parametrize(("words", "changed", "output"), INTO, ids=str)
def test_a_templated_sink_is_handed_the_output_of_an_earlier_run_or_cannot_name_it(
    words: dict[str, Any], changed: dict[str, Any] | None, output: str
) -> None:
    words = {"format": "parquet", **words}
    into = sink_into(words, output)
    assert into == (None if changed is None else {**words, **changed})
    assert into is None or sink_of(into).output == output


def test_a_sink_that_names_its_output_already_is_left_as_it_was_written() -> None:
    """The names of outputs have one spelling, which is not the one that Spark was configured with."""
    for words in ({"format": "parquet", "path": "s3://lake/x/"}, {"format": "iceberg", "table": "lake.db.Orders"}):
        assert sink_into(words, sink_of(words).output) is words


def test_a_job_of_ones_own_names_no_format() -> None:
    assert formats_of_arguments(["--output", "/lake", "--sink-format"]) == set()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("parquet", "sink is 'parquet'; expected words such as"),
        ({"path": "/lake"}, "sink has the format None; use one of parquet"),
        ({"format": "iceberg", "path": "/lake"}, "sink lacks 'table', which format 'iceberg' needs."),
        (
            {"format": "parquet", "path": "/lake", "compression": "gzip"},
            "format 'parquet' takes evolve, options, partition_by, path",
        ),
        ({"format": "parquet", "path": "/lake", "evolve": "merge"}, "evolve is 'merge'; it is 'fail'"),
        ({"format": "delta"}, "A Delta table has a path or a name in the catalog"),
        (
            {"format": "jdbc", "url": "jdbc:postgresql://u:p@h/d", "table": "t"},
            "The URL has a user or a password in it",
        ),
        (
            {"format": "jdbc", "url": "jdbc:postgresql://h/d?sslmode=require&sslpassword=p", "table": "t"},
            "The URL has a user or a password in it",
        ),
        *(
            ({"format": "jdbc", "url": "jdbc:postgresql://h/d", "table": table}, f"{table!r} is no table's name")
            for table in ('a"b', "..a", "a.", "a b", 'a.b"c"')
        ),
        ({"format": "iceberg", "table": "..a"}, "'..a' is no table's name"),
        ({"format": "iceberg", "table": "lake.a`b"}, "'lake.a`b' is no table's name"),
        ({"format": "delta", "table": "a."}, "'a.' is no table's name"),
    ],
    ids=str,
)
def test_wrong_words_are_refused(words: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sink_of(words)
    assert problem in "\n".join(refused.value.problems)
