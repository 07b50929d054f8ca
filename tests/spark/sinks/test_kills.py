"""A driver that is killed, or fails, at each of its steps: some ten minutes, so `make test-system` runs it."""

from collections.abc import Callable

import pytest

from tests.spark.sinks.conftest import A, B, Output, rows, seen
from tests.spark.sinks.cutting import check_cut_off
from tests.spark.sinks.lab import Killed, Lab
from tests.spark.sinks.outputs import OUTPUTS
from tests.spark.sinks.test_upsert import newest, record

of_each_output = pytest.mark.parametrize("kind", OUTPUTS)
STEPS = {"files": 10, "files by date": 13, "delta": 6, "iceberg": 9, "jdbc": 12}  # at least: some depend on the tasks


@of_each_output
@pytest.mark.parametrize("how", ["dead", "once"])
def test_each_step_that_fails_leaves_all_old_or_all_new_rows(
    kind: str, how: str, output_of: Callable[[str], Output]
) -> None:
    assert check_cut_off(output_of(kind), how) >= STEPS[kind]


@of_each_output
def test_a_driver_that_is_killed_at_any_step_leaves_all_old_or_all_new_rows(
    kind: str, output_of: Callable[[str], Output], make_lab: Callable[..., Lab]
) -> None:
    with make_lab() as driver:
        assert check_cut_off(output_of(kind), "kill", driver=driver) >= STEPS[kind]


@of_each_output
def test_a_driver_that_is_killed_while_its_tasks_write_leaves_the_old_rows(
    kind: str, output_of: Callable[[str], Output], make_lab: Callable[..., Lab]
) -> None:
    output = output_of(kind)
    output.write(A, rows(0, 1))
    with make_lab() as driver:
        for attempt, cut in enumerate(
            ({"fault": {"on": "row", "at": 150, "how": "kill"}}, {"on_look": {"kill": 1}}), start=2
        ):
            with pytest.raises(Killed):
                driver.ask("write", **output.command(A, rows(*range(200), value="w"), attempt=attempt, **cut))
            assert output.view() == {f"{A}/0": seen(rows(0, 1))}
    assert output.write(A, rows(7), attempt=9)["read"] == seen(rows(7))
    assert output.view() == {f"{A}/0": seen(rows(7))}


@pytest.mark.parametrize("kind", ["upsert delta", "upsert jdbc"])
def test_an_upsert_that_is_cut_off_is_whole_or_not_there_and_can_be_done_again(
    kind: str, output_of: Callable[[str], Output]
) -> None:
    output, on = output_of(kind), "calls" if "jdbc" in kind else "files"
    output.write(A, [record(1, 0, "v0"), record(2, 1, "v0")])
    before, offset, at = {1: (0, "v0"), 2: (1, "v0")}, 2, 0
    while True:
        given = [record(1, offset, f"v{offset}"), record(2, offset + 1, f"v{offset}")]
        after = {1: (offset, f"v{offset}"), 2: (offset + 1, f"v{offset}")}
        done = output.write(B, given, attempt=offset, fault={"on": on, "at": at, "how": "dead"})
        assert newest(output) in (before, after)
        output.write(B, given, attempt=offset + 1)
        assert newest(output) == after
        if len(done["steps"][on]) <= at:
            return
        before, offset, at = after, offset + 2, at + 1
