"""What is particular to a database: a lock, staging tables, rows that a task wrote twice, and secrets."""

from collections.abc import Callable

import pytest

from testbed.postgres import PASSWORD
from tests.spark.sinks.conftest import A, B, Output, rows, seen
from tests.spark.sinks.lab import Failed, Lab

STAGING = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'kafka_staging%'"


def test_a_late_driver_that_has_looked_fails_and_the_newer_one_waits_for_that(
    output_of: Callable[[str], Output],
) -> None:
    """It looks with the lock in its hand; what it had staged, the newer one has dropped."""
    output = output_of("jdbc")
    newer = {"do": "write", **output.command(A, rows(7), attempt=2)}
    with pytest.raises(Failed, match=r"LateAttempt: Attempt 1 at split 0 of batch .* stops before it writes"):
        output.write(A, rows(0, 1), attempt=1, on_look={"beside": newer})
    assert output.view() == {f"{A}/0": seen(rows(7))}


@pytest.mark.parametrize("isolation", ["", "?options=-c%20default_transaction_isolation=serializable"])
def test_of_two_with_one_number_the_second_waits_for_the_first(
    output_of: Callable[[str], Output], isolation: str
) -> None:
    """It sees what the first has written, whatever the role has: else PostgreSQL refuses what it writes."""
    output = output_of("jdbc")
    output.place = {**output.place, "url": output.place["url"] + isolation}
    output.write(A, rows(5))
    other = {"do": "write", **output.command(A, rows(7), attempt=1)}
    first = output.write(A, rows(0, 1), attempt=1, on_look={"beside": other})
    assert [answer["ok"]["read"] for answer in first["meanwhile"]] == [seen(rows(7))]
    assert output.view() == {f"{A}/0": seen(rows(7))}


def test_nobody_waits_for_a_lock_for_ever(output_of: Callable[[str], Output]) -> None:
    output = output_of("jdbc")
    impatient = {"do": "write", **output.command(A, rows(7), attempt=1, options={"wait_s": 1})}
    first = output.write(A, rows(0), attempt=1, on_look={"meanwhile": [impatient]})
    assert "lock timeout" in first["meanwhile"][0]["message"]
    assert output.view() == {f"{A}/0": seen(rows(0))}


def test_splits_that_write_at_the_same_time_make_the_table_once(output_of: Callable[[str], Output], lab: Lab) -> None:
    output = output_of("jdbc")
    splits = [{"do": "write", **output.command(A, rows(split), split=split)} for split in range(3)]
    done = lab.ask("together", commands=splits)
    assert all("ok" in answer for answer in done), done
    assert {key: found[0][0] for key, found in output.view().items()} == {f"{A}/{split}": split for split in range(3)}
    indexed = f"SELECT indexdef FROM pg_indexes WHERE tablename = '{output.place['name']}'"
    (index,) = lab.ask("database", place=output.place, statement=indexed)
    assert index.endswith("(kafka_batch, kafka_split)")


def test_rows_that_a_task_committed_twice_are_taken_once(output_of: Callable[[str], Output]) -> None:
    """A commit whose answer was lost is repeated, and so is a speculative task: no error tells."""
    output = output_of("jdbc")
    twice = (
        "DO $$ DECLARE s text; BEGIN SELECT tablename INTO s FROM pg_tables WHERE tablename LIKE 'kafka_staging%'; "
        "EXECUTE format('INSERT INTO %I SELECT * FROM %I WHERE kafka_task = 0', s, s); END $$"
    )
    doubled = {"do": "database", "place": output.place, "statement": twice}
    count = {"do": "database", "place": output.place, "statement": "SELECT 'x'"}
    written = output.write(A, rows(*range(8)), on_look={"meanwhile": [doubled, count]})
    assert written["meanwhile"][0] == {"ok": []}
    assert written["read"] == seen(rows(*range(8)))


@pytest.mark.parametrize("kind", ["jdbc", "upsert jdbc"])
@pytest.mark.parametrize("autosave", ["?autosave=always", "?ApplicationName=x&autosave=conservative", ""])
def test_a_url_that_divides_transactions_loses_no_row(
    output_of: Callable[[str], Output], kind: str, autosave: str
) -> None:
    """With a savepoint for each statement, each batch of rows that a task sends would look like a task of its own."""
    output = output_of(kind)
    output.place = {**output.place, "url": output.place["url"] + autosave, "batchsize": "2"}
    given = [[offset, "2026-11-22", "v", offset] for offset in range(16)]
    output.write(A, given)
    assert output.view() == {f"{A}/0": seen(given)}
    output.write(A, given[:9], attempt=2)
    assert output.view() == {f"{A}/0": seen(given[:9] if kind == "jdbc" else given)}


def test_rows_of_which_one_transaction_holds_a_part_are_refused_and_nothing_is_written(
    output_of: Callable[[str], Output],
) -> None:
    output = output_of("jdbc")
    output.write(A, rows(7))
    divide = (
        "DO $$ DECLARE s text; BEGIN SELECT tablename INTO s FROM pg_tables WHERE tablename LIKE 'kafka_staging%'; "
        """EXECUTE format('UPDATE %I SET value = value WHERE "offset" = 3', s); END $$"""
    )
    done = {"do": "database", "place": output.place, "statement": divide}
    with pytest.raises(Failed, match=r"InvalidRequest: A Spark task .* in several transactions"):
        output.write(A, rows(*range(8)), attempt=2, on_look={"meanwhile": [done]})
    assert output.view() == {f"{A}/0": seen(rows(7))}


def test_staging_tables_are_dropped_at_the_end_and_those_of_the_killed_by_the_next_attempt(
    output_of: Callable[[str], Output], lab: Lab
) -> None:
    output = output_of("jdbc")
    output.write(A, rows(0))
    calls = output.write(A, rows(0))["steps"]["calls"]  # of a table that is there
    assert lab.ask("database", place=output.place, statement=STAGING) == []
    after_save = calls.index("save") + 1
    for key, attempt in ((A, 2), (A, 3), (B, 1)):
        output.write(key, rows(1), attempt=attempt, fault={"on": "calls", "at": after_save, "how": "dead"})
    assert len(lab.ask("database", place=output.place, statement=STAGING)) == 2  # the third has dropped the second's
    output.write(A, rows(2), attempt=4)
    output.write(B, rows(2), attempt=2)
    assert lab.ask("database", place=output.place, statement=STAGING) == []


def test_a_table_of_ones_own_takes_the_rows_in_its_own_types(output_of: Callable[[str], Output], lab: Lab) -> None:
    output = output_of("jdbc")
    columns = (
        'topic varchar(20), "partition" bigint, "offset" numeric(20), dt date, value text, id bigint, '
        "kafka_batch text, kafka_split int, noted_at timestamptz DEFAULT now()"
    )
    lab.ask("database", place=output.place, statement=f"CREATE TABLE {output.place['name']} ({columns})")
    output.write(A, rows(0, 1))
    output.write(A, rows(2), attempt=2)
    assert [[int(float(offset)), *rest] for offset, *rest in output.view()[f"{A}/0"]] == seen(rows(2))


def test_a_password_is_in_no_message(output_of: Callable[[str], Output]) -> None:
    output = output_of("jdbc")
    with pytest.raises(Failed) as failed:
        output.write(A, [[0, "2026-11-22", "v"]], options={"options": {"createTableColumnTypes": "nonsense"}})
    assert PASSWORD not in str(failed.value)
    with pytest.raises(Failed, match=r"password authentication failed|no password") as failed:
        output.write(A, rows(0), options={"properties": "spark.nothing.of.that.name."})
    assert PASSWORD not in str(failed.value)
