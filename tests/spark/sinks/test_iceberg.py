"""What is particular to Iceberg: bounds of files, and snapshots that are refused."""

from collections.abc import Callable

import pytest

from tests.spark.sinks.conftest import A, B, Output, rows, seen
from tests.spark.sinks.lab import Failed, Lab


def table(output: Output) -> str:
    return f"lake.db.{output.place['name']}"


def first_step(error: Failed) -> str:
    """The statement that it tells to run first."""
    return str(error).split("First: ")[1].splitlines()[0].rstrip(".")


@pytest.mark.parametrize("newer_rows", [rows(7), []], ids=["that writes", "that writes nothing"])
def test_a_late_driver_is_refused_even_after_its_last_look(
    newer_rows: list[list[object]], output_of: Callable[[str], Output]
) -> None:
    output = output_of("iceberg")
    output.write(A, rows(0))
    newer = {"do": "write", **output.command(A, newer_rows, attempt=3)}
    with pytest.raises(Failed, match=r"LateAttempt: Attempt 2 at split 0 of batch .* stops before it writes"):
        output.write(A, rows(1, 2), attempt=2, on_look={"meanwhile": [newer]})
    assert output.view().get(f"{A}/0", []) == seen(newer_rows)


def test_a_late_driver_takes_back_what_lands_where_the_newer_one_had_nothing_to_write_and_nothing_to_remove(
    output_of: Callable[[str], Output],
) -> None:
    """Nothing that Iceberg could find says that the newer one was there."""
    output = output_of("iceberg")
    output.write(B, rows(5))
    newer = {"do": "write", **output.command(A, [], attempt=2)}
    with pytest.raises(Failed, match="LateAttempt"):
        output.write(A, rows(1), attempt=1, on_look={"meanwhile": [newer], "late": 2})
    assert output.view() == {f"{B}/0": seen(rows(5))}


def test_a_late_driver_takes_nothing_back_that_a_newer_one_has_written(output_of: Callable[[str], Output]) -> None:
    """It comes to its second look when the newer one has replaced its rows."""
    output = output_of("iceberg")
    output.write(A, rows(0))
    newer = {"do": "write", **output.command(A, rows(7), attempt=3)}
    with pytest.raises(Failed, match="LateAttempt"):
        output.write(A, rows(1, 2), attempt=2, on_look={"after_write": [newer], "late": 2})
    assert output.view() == {f"{A}/0": seen(rows(7))}


def test_splits_that_write_at_the_same_time_do_not_get_in_each_others_way(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of("iceberg")  # which they make, too
    splits = [{"do": "write", **output.command(A, rows(split), split=split)} for split in range(3)]
    done = lab.ask("together", commands=splits)
    assert all("ok" in answer for answer in done), done
    assert {key: found[0][0] for key, found in output.view().items()} == {f"{A}/{split}": split for split in range(3)}


def test_a_snapshot_says_who_made_it(output_of: Callable[[str], Output], lab: Lab) -> None:
    output = output_of("iceberg")
    output.write(A, rows(0), split=2, attempt=4)
    facts = ", ".join(f"summary['kafka-offsets.{name}']" for name in ("batch", "split", "attempt"))
    assert lab.ask("sql", statement=f"SELECT {facts} FROM {table(output)}.snapshots") == [[A, "2", "4"]]


def test_a_table_whose_bounds_are_cut_is_refused_with_what_to_do(output_of: Callable[[str], Output], lab: Lab) -> None:
    """In such a table a batch can be written, and never again."""
    output = output_of("iceberg")
    columns = "kafka_batch STRING, kafka_split INT, topic STRING, `partition` INT, offset BIGINT, dt DATE, value STRING"
    lab.ask("sql", statement=f"CREATE TABLE {table(output)} ({columns}, id INT) USING iceberg")
    with pytest.raises(Failed, match="ALTER TABLE") as failed:
        output.write(A, rows(0))
    assert output.view() == {}
    lab.ask("sql", statement=first_step(failed.value))
    output.write(A, rows(0))
    assert output.write(A, rows(1), attempt=2)["read"] == seen(rows(1))


def test_an_upsert_into_a_table_where_two_drivers_could_put_one_key_in_is_refused_with_what_to_do(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of("upsert iceberg")
    output.write(A, [[0, "2026-11-22", "a", 1]])
    level = "'write.merge.isolation-level' = 'snapshot'"
    lab.ask("sql", statement=f"ALTER TABLE {table(output)} SET TBLPROPERTIES ({level})")
    with pytest.raises(Failed, match="two drivers could put one key in twice") as failed:
        output.write(B, [[1, "2026-11-22", "b", 2]])
    assert list(output.view()) == [f"{A}/0"]
    lab.ask("sql", statement=first_step(failed.value))
    output.write(B, [[1, "2026-11-22", "b", 2]])
    assert output.ask("keys") == [A, B]


def test_a_branch_that_is_published_before_the_commit_takes_a_batch_as_often_as_the_table_does(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    """Write, audit, publish: a check that fails lets the next run do the batch again, on the branch."""
    output, branch = output_of("iceberg"), {"spark.wap.branch": "audit"}
    output.write(A, rows(0))
    lab.ask("sql", statement=f"ALTER TABLE {table(output)} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    lab.ask("settings", values=branch)
    try:
        for attempt in (1, 2):
            given = rows(5, 6, value=f"of attempt {attempt}")
            assert output.write(B, given, attempt=attempt)["read"] == seen(given)
        newer = {"do": "write", **output.command(B, rows(7), attempt=4)}
        with pytest.raises(Failed, match="LateAttempt"):
            output.write(B, rows(8), attempt=3, on_look={"meanwhile": [newer]})
        output.write(B, given, attempt=5)
    finally:
        lab.ask("settings", values=dict.fromkeys(branch))
    assert output.view() == {f"{A}/0": seen(rows(0))}
    published = f"CALL lake.system.fast_forward('{table(output)}', 'main', 'audit')"
    lab.ask("sql", statement=published)
    assert output.view() == {f"{A}/0": seen(rows(0)), f"{B}/0": seen(given)}


@pytest.mark.parametrize("kind", ["iceberg", "upsert iceberg"])
def test_a_snapshot_that_nobody_would_see_is_refused(kind: str, output_of: Callable[[str], Output], lab: Lab) -> None:
    """An upsert reads nothing back, so its runs were green, and its table stayed empty."""
    output = output_of(kind)
    lab.ask("settings", values={"spark.wap.id": "audit"})
    try:
        with pytest.raises(Failed, match=r"The session has spark\.wap\.id: Iceberg may stage"):
            output.write(A, [[0, "2026-11-22", "a", 1]])
    finally:
        lab.ask("settings", values={"spark.wap.id": None})
    assert output.view() == {}


def test_a_table_of_120_columns_whose_key_stands_last_has_its_bounds(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    """Iceberg keeps those of the first 100 columns, and of those that are named. Without them a redo would fail."""
    output = output_of("iceberg")
    name = f"lake.db.{output.place['name']}"
    more = [f"c{number}" for number in range(114)]
    wide = ", ".join(
        ["topic STRING, partition INT, offset BIGINT, dt DATE, value STRING, id INT", *(f"{c} INT" for c in more)]
    )
    lab.ask("sql", statement=f"CREATE TABLE {name} ({wide}) USING iceberg")
    lab.ask("sql", statement=f"ALTER TABLE {name} ADD COLUMNS (kafka_batch STRING, kafka_split INT)")
    full = ", ".join(f"'write.metadata.metrics.column.{column}' = 'full'" for column in ("kafka_batch", "kafka_split"))
    lab.ask("sql", statement=f"ALTER TABLE {name} SET TBLPROPERTIES ({full})")
    for attempt in (1, 2):
        for key in (A, B):
            output.write(key, rows(attempt), attempt=attempt, nulls=more)
    bounds = lab.ask("sql", statement=f"SELECT readable_metrics.kafka_batch.lower_bound FROM {name}.files")
    assert sorted(bounds) == [[A], [B]]


def test_a_batch_in_a_compacted_file_is_refused_and_unchanged(output_of: Callable[[str], Output], lab: Lab) -> None:
    output = output_of("iceberg")
    output.write(A, rows(0))
    output.write(B, rows(5))
    options = "options => map('rewrite-all', 'true')"
    lab.ask("sql", statement=f"CALL lake.system.rewrite_data_files(table => '{table(output)}', {options})")
    assert output.ask("keys") == [A, B]
    with pytest.raises(Failed, match="the table was compacted") as failed:
        output.write(A, rows(1), attempt=2)
    assert output.view() == {f"{A}/0": seen(rows(0)), f"{B}/0": seen(rows(5))}
    remedy = str(failed.value).split("again: ")[1].split(". Compact")[0]
    lab.ask("sql", statement=remedy)
    output.write(A, rows(1), attempt=3)
    assert output.view() == {f"{A}/0": seen(rows(1)), f"{B}/0": seen(rows(5))}
