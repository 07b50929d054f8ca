"""What every sink promises, on each of them: the same tests, against real Delta, Iceberg and PostgreSQL."""

from collections.abc import Callable

import pytest

from tests.spark.sinks.conftest import WINDOW, A, B, Output, of_kinds, rows, seen
from tests.spark.sinks.cutting import check_cut_off
from tests.spark.sinks.lab import Failed
from tests.spark.sinks.outputs import OUTPUTS

pytestmark = of_kinds(OUTPUTS)
NEXT_DAY = "2026-11-23"


def test_what_is_written_is_read_back_and_its_key_is_listed(kind: str, output_of: Callable[[str], Output]) -> None:
    output = output_of(kind)
    assert output.ask("keys") == []
    assert output.ask("counted", key=A) == []

    given = rows(0, 1, 2) + rows(3, dt=NEXT_DAY)
    assert output.write(A, given)["read"] == seen(given)
    assert output.ask("written", key=A) == seen(given)
    assert output.ask("counted", key=A) == [["orders", 0, 4, 0, 3]]
    assert output.ask("written", key=A, split=1) == []
    output.write(WINDOW, rows(7))
    assert output.ask("keys") == [A, WINDOW]
    types = output.ask("schema")
    assert (types["kafka_batch"], types["kafka_split"], types["dt"]) == ("string", "int", "date")


def test_an_audit_counts_the_rows_of_each_batch_or_of_some(kind: str, output_of: Callable[[str], Output]) -> None:
    output = output_of(kind)
    assert output.ask("places") == []
    output.write(A, rows(0, 1, 1) + rows(3, dt=NEXT_DAY))
    output.write(A, rows(64, 65), split=1)
    output.write(B, rows(200))
    first, second = [A, 0, "orders", 0, 4, 3, 0, 3], [A, 1, "orders", 0, 2, 2, 64, 65]
    assert output.ask("places") == [first, second, [B, 0, "orders", 0, 1, 1, 200, 200]]
    assert output.ask("places", bounds=[A, A]) == [first, second]


def test_a_batch_that_is_done_again_with_other_rows_replaces_them_and_no_others(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output, others = output_of(kind), {f"{A}/1": rows(50, 51), f"{B}/0": rows(60) + rows(61, dt=NEXT_DAY)}
    output.write(A, others[f"{A}/1"], split=1)
    output.write(B, others[f"{B}/0"])
    again = [
        rows(0, 1),
        rows(0, value="w") + rows(1, 2, 3, 4, dt=NEXT_DAY),  # record 1 has got another date
        [],
        rows(0, dt="2026-11-24"),
    ]
    for attempt, given in enumerate(again, start=1):
        assert output.write(A, given, attempt=attempt)["read"] == seen(given)
        left = {f"{A}/0": given} if given else {}
        assert output.view() == {key: seen(some) for key, some in {**others, **left}.items()}


def test_a_job_that_writes_its_batch_twice_leaves_what_it_has_written_last(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    """Both are one attempt: a first version of the rows, and then one with more in it."""
    output, given = output_of(kind), rows(0, 1, value="enriched")
    output.write(A, rows(0, 1))
    assert output.write(A, given)["read"] == seen(given)
    assert output.view() == {f"{A}/0": seen(given)}


def test_old_rows_stay_if_the_source_fails_or_the_attempt_is_overtaken(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0, 1, 2))
    with pytest.raises(Failed, match="records are gone"):
        output.write(A, rows(*range(10), value="w"), attempt=2, fault={"on": "row", "at": 8, "how": "raise"})
    assert output.view() == {f"{A}/0": seen(rows(0, 1, 2))}
    with pytest.raises(Failed, match="attempt 9 has begun"):
        output.write(A, rows(5), attempt=3, on_look={"raise": "attempt 9 has begun"})
    assert output.view() == {f"{A}/0": seen(rows(0, 1, 2))}
    assert output.write(A, rows(5), attempt=4)["read"] == seen(rows(5))


@pytest.mark.parametrize("column", ["kafka_batch", "KAFKA_SPLIT"])
def test_a_column_of_the_key_s_name_is_refused_and_nothing_is_written(
    kind: str, column: str, output_of: Callable[[str], Output]
) -> None:
    """It would be overwritten without a word; Spark's names have no case."""
    output = output_of(kind)
    with pytest.raises(Failed, match=f"InvalidRequest: .*{column}"):
        output.write(A, rows(0), extra=column)
    assert output.view() == {}


def test_a_driver_that_is_cut_off_leaves_all_old_or_all_new_rows(kind: str, output_of: Callable[[str], Output]) -> None:
    """At two steps; `test_kills.py` has all of them, and a process that is really killed at each."""
    check_cut_off(output_of(kind), "dead", lambda steps: (steps // 2, steps - 2))
