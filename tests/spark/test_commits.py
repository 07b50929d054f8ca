"""Which rows of the log table count, by the entries of their batches, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.spark.commits import Commits
from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.plan import Plan
from tests.spark.plans import encode

OUTPUT = "delta:/lake/orders"
KEY = f"{7:010}-0123456789ab"
PLAN = {"entry": "plan", "key": KEY}


class Folder:
    """A store in a folder."""

    def __init__(self, root: Path, *entries: dict[str, Any], number: int = 7, attempts: int = 1) -> None:
        self.root, folder = root, root / f"orders/batches/{0:08}/{number:010}"
        folder.mkdir(parents=True)
        for attempt in range(1, attempts + 1):
            (folder / f"{attempt}-0a1b2c3d.begun.json").touch()
        for k, entry in enumerate(entries, 1):
            (folder / f"{k}.json").write_bytes(encode({"version": 1, **entry}))

    def get(self, name: str) -> bytes | None:
        return (self.root / name).read_bytes() if (self.root / name).exists() else None

    def put(self, name: str, data: bytes) -> None:
        raise AssertionError(name)

    def list(self, folder: str) -> list[str]:
        return [file.name for file in (self.root / folder).iterdir()] if (self.root / folder).exists() else []


def commit(snapshot: str | None, output: str = OUTPUT, rows: int = 1) -> dict[str, Any]:
    return {"entry": "commit", "output": output, "snapshot": snapshot, "rows": rows, "attempt": 1}


def counts(
    root: Path,
    *entries: dict[str, Any],
    version: int | None = 12,
    key: str = KEY,
    adopted: str = "",
    base: int = 0,
    attempts: int = 1,
) -> bool:
    store = Folder(root, *entries, number=7 - base, attempts=attempts)
    plan = Plan(
        pipeline="orders",
        number=8,
        key=f"{8:010}-ba9876543210",
        plan_id="1",
        bases=(0, base),
        adopted={"lost": adopted},
    )
    return Commits(store, "orders", plan, OUTPUT).counts(key, version)


@pytest.mark.parametrize(
    ("entries", "version", "is_committed"),
    [
        ([PLAN], 12, False),
        ([PLAN, PLAN], 12, False),
        ([PLAN, commit("12")], 12, True),
        ([PLAN, commit("12"), PLAN], 12, True),  # its run is cleared, and nothing is written yet
        ([PLAN, commit("5"), PLAN, commit("12")], 12, True),
        ([PLAN, commit("5", output="delta:/moved")], 12, False),
        ([PLAN, commit("5")], None, True),  # the table's history does not say any more
        ([PLAN, commit("5"), PLAN], None, True),  # nor has the run that was cleared begun an attempt
        ([PLAN, commit(None)], 12, True),
    ],
)
def test_rows_count_that_the_last_commit_names(
    tmp_path: Path, entries: list[dict[str, Any]], version: int | None, is_committed: bool
) -> None:
    assert counts(tmp_path, *entries, version=version) is is_committed


@pytest.mark.parametrize(
    ("entries", "version"),
    [([PLAN, commit("5")], 12), ([PLAN, commit("12"), PLAN, commit("15")], 12), ([PLAN, commit("5"), PLAN], None)],
)
def test_rows_that_another_attempt_has_written_since_are_refused(
    tmp_path: Path, entries: list[dict[str, Any]], version: int | None
) -> None:
    with pytest.raises(LateAttempt, match="It is being rewritten"):
        counts(tmp_path, *entries, version=version, attempts=2)


def test_rows_of_another_log_count_if_a_person_has_adopted_them(tmp_path: Path) -> None:
    other = f"{7:010}-fedcba987654"
    with pytest.raises(OtherOutput, match=f"rows of batch {other}, and this log has no such batch"):
        counts(tmp_path / "a", PLAN, commit("12"), key=other)
    assert counts(tmp_path / "b", PLAN, commit("12"), key=other, adopted=f"{8:010}-x")
    assert not counts(tmp_path / "c", PLAN, adopted=f"{8:010}-x")  # its own batches are asked for first
    assert counts(tmp_path / "d", PLAN, commit("12"), base=5)
    with pytest.raises(OtherOutput):
        counts(tmp_path / "e", PLAN, key="x")
