"""The newest record of each key, in Delta, Iceberg and PostgreSQL: whatever is done again, and in whichever order."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.spark.sinks.conftest import WINDOW, A, B, Output, Row
from tests.spark.sinks.lab import Failed, Lab

pytestmark = pytest.mark.parametrize("kind", ["upsert delta", "upsert iceberg", "upsert jdbc"])
DAY = "2026-11-22"
C = "0000000009-20261122T042057-p4q1"
DELETES = {"kafka_deleted": "value = 'gone'"}


def newest(output: Output) -> dict[int, tuple[int, str]]:
    """By id: offset and value."""
    return {number: (offset, value) for found in output.view().values() for offset, _, value, number in found}


def record(number: int | None, offset: int, value: str, partition: int = 0) -> Row:
    return [offset, DAY, value, number, partition]


def test_a_batch_that_is_done_again_after_later_ones_puts_no_old_value_back(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output, first = output_of(kind), [record(1, 0, "a"), record(2, 1, "b"), record(1, 2, "c")]
    assert output.write(A, first)["read"] is None  # nothing that could be read back record by record
    assert newest(output) == {1: (2, "c"), 2: (1, "b")}
    output.write(B, [record(1, 3, "d"), record(3, 4, "e", partition=1)])
    after = {1: (3, "d"), 2: (1, "b"), 3: (4, "e")}
    assert newest(output) == after
    for attempt in (2, 3):
        output.write(A, first, attempt=attempt)
        assert newest(output) == after
    assert output.ask("keys") == [A, B]
    assert output.ask("written", key=A) is None


def test_an_audit_counts_the_rows_that_still_come_from_each_batch(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    assert output.ask("places") == []
    output.write(A, [record(1, 0, "a"), record(2, 1, "b"), record(4, 2, "c")])
    output.write(B, [record(1, 3, "d"), record(3, 4, "e", partition=1)])
    first, *second = [[A, 0, "orders", 0, 2, 2, 1, 2], [B, 0, "orders", 0, 1, 1, 3, 3], [B, 0, "orders", 1, 1, 1, 4, 4]]
    assert output.ask("places") == [first, *second]
    assert output.ask("places", bounds=[B, B]) == second


def test_a_topic_that_was_re_created_is_newer_although_its_offsets_are_lower(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, [record(1, 900, "of the old topic"), record(2, 901, "of the old topic")])
    output.write(B, [record(1, 3, "of the new one")])
    after = {1: (3, "of the new one"), 2: (901, "of the old topic")}
    assert newest(output) == after
    output.write(A, [record(1, 902, "of the old topic")], attempt=2)  # by a driver that comes late
    assert newest(output) == after


def test_so_it_is_in_a_window_that_starts_later(kind: str, output_of: Callable[[str], Output]) -> None:
    """A DAG of windows has no position, which would tell it of the new topic."""
    output, (first, second, third) = (
        output_of(kind),
        (f"20261122T0{n}0000Z--20261122T0{n + 1}0000Z-1a2b3c4d" for n in (1, 2, 3)),
    )
    by_topic = "20261122T040000Z--20261122T050000Z-5e6f7a8b-1a2b3c4d"
    output.write(first, [record(1, 900, "a"), record(2, 901, "a"), record(3, 902, "a")])
    output.write(second, [record(1, 903, "b"), record(2, 904, "b")])
    output.write(first, [record(1, 900, "A"), record(2, 901, "A"), record(3, 902, "A")], attempt=2)
    assert newest(output) == {1: (903, "b"), 2: (904, "b"), 3: (902, "A")}
    output.write(third, [record(1, 3, "of the new topic")])
    output.write(second, [record(1, 905, "c"), record(2, 904, "c")], attempt=2)
    after = {1: (3, "of the new topic"), 2: (904, "c"), 3: (902, "A")}
    assert newest(output) == after
    output.write(by_topic, [record(1, 2, "d"), record(2, 905, "d")])  # each topic starts at another time
    assert newest(output) == {**after, 2: (905, "d")}
    output.write(third, [record(1, 4, "e"), record(2, 5, "e")], attempt=2)
    assert newest(output) == {**after, 1: (4, "e"), 2: (905, "d")}


def test_a_batch_of_the_log_changes_what_windows_or_nobody_has_put_in_where_its_offsets_are_not_lower(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    """A pipeline goes on by its log where windows were; a table is filled by hand, before its first batch."""
    output = output_of(kind)
    output.write(WINDOW, [record(1, 0, "a"), record(2, 9, "b"), record(3, 2, "c")])
    update(output, lab, "SET kafka_batch = NULL WHERE id = 3")
    output.write(A, [record(1, 3, "d"), record(2, 4, "d"), record(3, 5, "d")])
    assert newest(output) == {1: (3, "d"), 2: (9, "b"), 3: (5, "d")}


def test_a_key_in_two_partitions_and_a_record_without_key_are_refused_and_nothing_is_written(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, [record(1, 5, "a")])
    for bad in (
        [record(2, 6, "b"), record(1, 0, "z", partition=1)],
        [record(2, 6, "b"), record(2, 0, "z", partition=1)],
    ):
        with pytest.raises(Failed, match="two partitions"):
            output.write(B, bad)
    with pytest.raises(Failed, match="no value in a key column"):
        output.write(B, [record(2, 6, "b"), record(None, 7, "z")])
    assert newest(output) == {1: (5, "a")}


def test_a_row_whose_offset_is_set_to_minus_one_takes_a_record_of_any_partition(
    kind: str, output_of: Callable[[str], Output], lab: Lab
) -> None:
    """A topic has got more partitions, and what the table has is older than all that is still to be read."""
    output = output_of(kind)
    output.write(A, [record(1, 5, "a"), record(2, 6, "b")])
    update(output, lab, 'SET "offset" = -1 WHERE id = 1')
    with pytest.raises(Failed, match=r"two partitions.* set its column offset to -1"):
        output.write(B, [record(1, 0, "c", partition=1), record(2, 1, "c", partition=1)])
    output.write(B, [record(1, 0, "c", partition=1), record(2, 7, "d")], attempt=2)
    assert newest(output) == {1: (0, "c"), 2: (7, "d")}
    update(output, lab, 'SET "offset" = -1')
    output.write(A, [record(1, 5, "a"), record(2, 6, "b")], attempt=2)  # an older batch puts no old value back
    assert newest(output) == {1: (-1, "c"), 2: (-1, "d")}


def update(output: Output, lab: Lab, what: str) -> None:
    """What a person does."""
    root, name = output.place["root"], output.place["name"]
    if output.kind == "upsert jdbc":
        lab.ask("database", place=output.place, statement=f"UPDATE {name} {what}")
    else:
        table = f"delta.`{root}/{name}`" if output.kind == "upsert delta" else f"lake.db.{name}"
        in_spark = what.replace('"', "`")
        lab.ask("sql", statement=f"UPDATE {table} {in_spark}")


def test_a_column_of_the_key_s_name_is_refused_and_nothing_is_written(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    for column in ("Kafka_Batch", *(["kafka_task"] if kind == "upsert jdbc" else [])):
        with pytest.raises(Failed, match=f"InvalidRequest: .*{column}"):
            output.write(A, [record(1, 0, "a")], extra=column)
    assert newest(output) == {}


def entities(output: Output) -> dict[int, tuple[int, str | None, bool]]:
    """By id: offset, value, and whether it is deleted."""
    rows = output.ask("table", columns=["id", "offset", "value", "kafka_deleted"])
    return {int(number): (int(offset), value, deleted == "True") for number, offset, value, deleted in rows}


def test_what_a_newer_batch_has_deleted_stays_deleted_when_an_older_one_is_done_again(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output, first = output_of(kind), [record(1, 0, "a"), record(2, 1, "b")]
    output.write(A, first, columns=DELETES)
    output.write(B, [record(1, 2, "gone"), record(3, 3, "gone")], columns=DELETES)
    deleted = {1: (2, None, True), 2: (1, "b", False), 3: (3, None, True)}
    assert entities(output) == deleted
    for attempt in (2, 3):
        output.write(A, [*first, record(3, 1, "of before its delete")], attempt=attempt, columns=DELETES)
        assert entities(output) == deleted
    output.write(C, [record(1, 4, "again")], columns=DELETES)
    output.write(B, [record(1, 2, "gone"), record(3, 3, "gone")], attempt=2, columns=DELETES)
    assert entities(output) == {**deleted, 1: (4, "again", False)}


def test_a_late_driver_of_an_older_batch_does_not_bring_back_what_is_deleted_while_it_writes(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, [record(9, 0, "z")], columns=DELETES)
    newer = {"do": "write", **output.command(B, [record(1, 7, "gone")], columns=DELETES)}
    output.write(A, [record(1, 1, "a"), record(9, 0, "z")], attempt=2, columns=DELETES, on_look={"meanwhile": [newer]})
    assert entities(output) == {1: (7, None, True), 9: (0, "z", False)}


def test_a_record_and_its_delete_in_one_batch_leave_it_deleted(kind: str, output_of: Callable[[str], Output]) -> None:
    output = output_of(kind)
    output.write(A, [record(1, 0, "a"), record(1, 1, "gone"), record(2, 2, "gone"), record(2, 3, "b")], columns=DELETES)
    assert entities(output) == {1: (1, None, True), 2: (3, "b", False)}


def test_a_condition_that_is_null_deletes_nothing(kind: str, output_of: Callable[[str], Output]) -> None:
    output = output_of(kind)
    output.write(A, [record(1, 0, "a")], columns={"kafka_deleted": "CAST(NULL AS BOOLEAN)"})
    assert entities(output) == {1: (0, "a", False)}


def test_drivers_that_put_the_same_new_keys_in_at_the_same_time_leave_one_row_each(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    keys = range(8)
    writes = [
        output.command(A, [record(n, n, "a") for n in keys], columns=DELETES),
        *(output.command(B, [record(n, n, "gone") for n in keys if n % 2 == s], s, columns=DELETES) for s in (0, 1)),
    ]
    answers = output.lab.ask("together", commands=[{"do": "write", **write} for write in writes])
    assert [answer.get("message") for answer in answers] == [None] * 3
    assert entities(output) == {n: (n, None, True) for n in keys}


def test_a_batch_that_is_done_again_with_a_mended_definition_mends_its_rows_and_no_newer_ones(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, [record(1, 0, "wrong"), record(2, 1, "wrong"), record(3, 2, "wrong")], columns=DELETES)
    output.write(B, [record(2, 3, "newer")], columns=DELETES)
    output.write(A, [record(1, 0, "right"), record(2, 1, "right"), record(3, 2, "gone")], attempt=2, columns=DELETES)
    assert entities(output) == {1: (0, "right", False), 2: (3, "newer", False), 3: (2, None, True)}


def test_a_table_that_has_a_key_twice_is_refused_and_nothing_is_written(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    """Plain rows were written to it, or the keys were others."""
    output = output_of(kind)
    plain = replace(output, kind=kind.removeprefix("upsert "))
    plain.write(A, [record(1, 0, "a"), record(1, 1, "b"), record(2, 2, "c")])
    before = output.view()
    with pytest.raises(Failed, match=r"key in two rows|no unique or exclusion constraint"):
        output.write(B, [record(1, 3, "d")])
    assert output.view() == before


def test_rows_are_not_put_into_a_table_of_entities(kind: str, output_of: Callable[[str], Output]) -> None:
    """``upsert`` is gone from the DAG, and a batch is done again."""
    output = output_of(kind)
    output.write(A, [record(1, 0, "a"), record(2, 1, "b")], columns=DELETES)
    plain = Output(kind.removeprefix("upsert "), output.place, output.lab)
    with pytest.raises(Failed, match="has one row for each key"):
        plain.write(A, [record(1, 0, "a"), record(2, 1, "b")], attempt=2)
    assert entities(output) == {1: (0, "a", False), 2: (1, "b", False)}
