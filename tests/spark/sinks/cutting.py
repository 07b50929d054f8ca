"""One check for all ways to cut a driver off: what a reader sees then, and what the next attempt makes of it."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.spark.sinks.conftest import A, B, Output, Row, rows, seen
from tests.spark.sinks.lab import Failed, Killed, Lab

OTHERS = {f"{A}/1": rows(50), f"{B}/0": rows(60)}


def versions() -> Iterator[list[Row]]:
    """Rows without end, no two alike. From each to the next one date is rewritten, one begun and one left."""
    number = 0
    while True:
        number += 1
        yield rows(0, 1, value=f"v{number}") + rows(2, value=f"v{number}", dt=f"2026-12-{number % 9 + 10}")


def check_cut_off(
    output: Output, how: str, points: Callable[[int], Iterable[int]] | None = None, driver: Lab | None = None
) -> int:
    """Cut a write off at each step, look at what is left, and do it again. The number of steps that it has.

    :param points: of that number, which steps; by default all of them.
    :param driver: of which a new process is started for each step, because the last one was killed.
    """
    for key, given in OTHERS.items():
        output.write(key.partition("/")[0], given, split=int(key[-1]))
    on = "calls" if "jdbc" in output.kind else "files"
    some, attempts = versions(), itertools.count(1)
    output.write(A, next(some), attempt=next(attempts))
    old = next(some)
    steps = len(output.write(A, old, attempt=next(attempts))["steps"][on])
    for at in points(steps) if points else itertools.count():
        new = next(some)
        outcome = _cut_off(output, driver, new, next(attempts), {"on": on, "at": at, "how": how})
        if outcome is not None and len(outcome["steps"][on]) <= at:  # it got through: that was the last step
            assert output.view() == _with(new)
            return at
        _check_view(output, old, new, at)
        if output.kind.startswith("files"):
            _check_swap_is_finished(output, old, new, next(attempts))
        old = next(some)
        assert output.write(A, old, attempt=next(attempts))["read"] == seen(old)
        assert output.view() == _with(old), f"done again after step {at}"
    return steps


def _cut_off(output: Output, driver: Lab | None, new: list[Row], attempt: int, fault: dict[str, Any]) -> Any:
    """What the write answered; None if the driver was killed."""
    if driver is None:
        return output.write(A, new, attempt=attempt, fault=fault)
    try:
        answer = driver.ask("write", **output.command(A, new, attempt=attempt, fault=fault))
    except Killed:
        answer = None
    driver.start()  # the next one comes up while this one's remains are looked at
    return answer


def _check_view(output: Output, old: list[Row], new: list[Row], at: int) -> None:
    view = output.view()
    mine = view.get(f"{A}/0", [])
    assert {**view, f"{A}/0": seen(old)} == _with(old), f"another key or split has changed at step {at}"
    if not output.kind.startswith("files"):
        assert mine in (seen(old), seen(new)), f"neither old nor new at step {at}"
    # Files: while folders are swapped, some may be old, some new and some away. Nothing else may be there, or twice.
    assert all(row in seen(old + new) for row in mine)
    assert len({str(row) for row in mine}) == len(mine)


def _check_swap_is_finished(output: Output, old: list[Row], new: list[Row], attempt: int) -> None:
    """The next attempt ends a swap that was cut off before it reads: its source may be gone."""
    with pytest.raises(Failed, match="records are gone"):
        output.write(A, rows(0), attempt=attempt, fault={"on": "row", "at": 0, "how": "raise"})
    assert output.view() in (_with(old), _with(new))


def _with(mine: list[Row]) -> dict[str, list[Row]]:
    return {key: seen(given) for key, given in {**OTHERS, f"{A}/0": mine}.items()}
