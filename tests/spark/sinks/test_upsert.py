"""The newest record of each key, in Delta and in PostgreSQL: whatever is done again, and in whichever order."""

from collections.abc import Callable

import pytest

from tests.spark.sinks.conftest import A, B, Output, Row
from tests.spark.sinks.lab import Failed

pytestmark = pytest.mark.parametrize("kind", ["upsert delta", "upsert jdbc"])
DAY = "2026-11-22"


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


def test_a_topic_that_was_re_created_is_newer_although_its_offsets_are_lower(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, [record(1, 900, "of the old topic"), record(2, 901, "of the old topic")])
    output.write(B, [record(1, 3, "of the new one")])
    assert newest(output) == {1: (3, "of the new one"), 2: (901, "of the old topic")}


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


def test_a_column_of_the_key_s_name_is_refused_and_nothing_is_written(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    for column in ("Kafka_Batch", *(["kafka_task"] if kind == "upsert jdbc" else [])):
        with pytest.raises(Failed, match=f"InvalidRequest: .*{column}"):
            output.write(A, [record(1, 0, "a")], extra=column)
    assert newest(output) == {}
