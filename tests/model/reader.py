"""What a reader of the whole output finds: every record that a committed batch accounts for, once.

Readers look at the base, not at the log: rows that nobody knows of are counted with the others. Only what an unfinished
batch has written so far is nobody's yet.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.model.lake import Log, Row

if TYPE_CHECKING:
    from tests.model.world import World


def check_log(world: World, pipeline: str) -> None:
    """Each committed batch has just its rows; no record is in two of them, one epoch apart; nothing is beside them."""
    books = world.books
    found: Counter[tuple[Row, int]] = Counter()
    for key, batch in books.commits.items():
        if batch.pipeline != pipeline or key in books.marked_as_done:
            continue
        output = batch.plan.asked.output or ""
        wrong = {s: what for s, what in books.wrong_splits(batch.plan).items() if (output, key, s) not in books.late}
        assert not wrong, f"{batch.plan.batch} is committed, and a reader finds: {wrong}"
        for split, rows in world.lake.splits(output, key).items():
            if (output, key, split) not in books.late:
                found.update((row, batch.epochs.get(row[0], 0)) for row in rows)
    twice = sorted(row for row, times in found.items() if times > 1 and not _is_replaced(world, row[0]))
    assert not twice, f"a reader of the outputs of {pipeline} finds twice: {twice}"
    plans = (books.planned(folder) for _, folder in books.batches(pipeline))  # a clean may have taken just the plan
    known = {(p.plan.batch.key, p.plan.asked.output) for p in plans if p and p.plan.batch}
    known |= {(key, batch.plan.asked.output) for key, batch in books.commits.items()}
    committed = {row for row, _ in found}
    if not books.has_looked_at_output(pipeline):  # it is the first driver after a loss that finds what is there
        return
    for output in world.outputs_of(pipeline):
        for key in (key for key in world.lake.keys(output) if (key, output) not in known):
            splits = world.lake.splits(output, key)
            beside = {row for split, rows in splits.items() if (output, key, split) not in books.late for row in rows}
            assert not beside & committed, f"{key}, which nobody committed, has {sorted(beside & committed)} as well"


def check_windows(world: World, pipeline: str) -> None:
    """Each committed window has just its rows, and no record is in two of them; another output is for other readers."""
    books = world.books
    found: Counter[tuple[Row, str]] = Counter()
    for key, plan in books.windows.items():
        if plan.pipeline != pipeline or key in books.marked_as_done:
            continue
        output = plan.asked.output or ""
        wrong = {s: what for s, what in books.wrong_splits(plan).items() if (output, key, s) not in books.late}
        assert not wrong, f"{plan.batch} is committed, and a reader finds: {wrong}"
        for split, rows in world.lake.splits(output, key).items():
            if (output, key, split) not in books.late:
                found.update((row, output) for row in rows)
    twice = sorted(row for (row, _), times in found.items() if times > 1 and not world.was_cut(row[0]))
    assert not twice, f"a reader of the windows of {pipeline} finds twice: {twice}"


def _is_replaced(world: World, row: Row) -> bool:
    """Other records are at this offset since the log was cut: a batch that is done once more reads those."""
    log: Log = row[0]
    return world.was_cut(log)
