"""The document says what ran, and the package's metadata promise nothing else."""

import re
import tomllib
from pathlib import Path

from airflow_kafka_offsets.hooks.spark_installation import TABLES
from testbed.jars import pinned
from tests.matrix.document import DOCUMENT, NOT_RUN, SINKS, STEPS, VERSIONS, Seen, document, table_of
from tests.matrix.rows import PYTHONS, ROWS, chosen

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
TABLE = table_of(DOCUMENT.read_text())


def versions_of(column: str, name: str) -> str:
    return TABLE[name][VERSIONS.index(column)]


def test_every_row_ran_whole() -> None:
    steps = slice(len(VERSIONS), len(VERSIONS) + len(STEPS))
    assert {row.name: TABLE[row.name][steps] for row in ROWS} == {row.name: ["yes"] * len(STEPS) for row in ROWS}


# Spark 4.0's are those of tests/spark/sinks. Played, they go from here.
NOT_PLAYED = {"4.0"}


def test_each_package_of_a_table_format_that_is_added_was_played_with_that_spark() -> None:
    for position, table_format in enumerate(SINKS, len(VERSIONS) + len(STEPS)):
        played = {row.minor for row in ROWS if TABLE[row.name][position] == "yes"}
        assert played == set(TABLES[table_format]) - NOT_PLAYED
        for minor, coordinate in TABLES[table_format].items():
            own = pinned(f"{table_format}-{minor}")[0]
            assert str(own) == coordinate.format("2.12" if minor == "3.5" else "2.13")


def test_no_sink_is_said_to_work_that_did_not() -> None:
    assert {cell for cells in TABLE.values() for cell in cells[-len(SINKS) :]} <= {"yes", NOT_RUN}


def test_the_lowest_row_ran_with_the_bounds_of_the_package() -> None:
    bounds = dict(re.fullmatch(r"([\w-]+)>=([\d.]+).*", line).groups() for line in PROJECT["dependencies"])  # type: ignore[union-attr]
    columns = {
        "apache-airflow": "Airflow",
        "apache-airflow-providers-apache-kafka": "Kafka provider",
        "apache-airflow-providers-apache-spark": "Spark provider",
        "confluent-kafka": "confluent-kafka",
    }
    assert {name: versions_of(column, "lowest") for name, column in columns.items()} == {
        name: bounds[name] for name in columns
    }


def test_each_python_that_the_classifiers_name_has_a_row() -> None:
    claimed = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", line)]
    assert claimed == list(PYTHONS)


def test_a_row_that_did_not_run_keeps_what_it_had() -> None:
    other, lowest = chosen("lowest airflow-3.0.6")
    seen = Seen({lowest.name: dict.fromkeys(VERSIONS, "1")}, {lowest.name: {"batches": "FAILED"}})
    renewed = table_of(document(DOCUMENT.read_text(), seen))
    assert renewed[lowest.name] == ["1"] * len(VERSIONS) + ["FAILED"] + [NOT_RUN] * (len(STEPS + SINKS) - 1)
    assert renewed[other.name] == TABLE[other.name]
