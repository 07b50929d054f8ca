"""Options of a table's write: which of two writes lands, and which is refused."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.output import Attempt, row_filter, table_options
from tests.offsets.builders import RUN, plan, planned

PLAN = plan([planned(0, 0, 10)], run=RUN)
SUCCESSOR = replace(plan([planned(0, 0, 20)], run=RUN), replaces=PLAN.plan_id, starts_all_splits=True)


def version(made: Any, generation: int, number: int, mode: Any = "overwrite") -> int:
    return int(table_options(Attempt(made, 0, generation, number), "delta", mode)["txnVersion"])


def test_what_has_to_land_has_a_higher_version_than_all_before() -> None:
    """Delta skips a version that is not above the last."""
    in_order = [version(PLAN, 1, 1), version(PLAN, 1, 2), version(SUCCESSOR, 2, 1), version(PLAN, 3, 3)]
    assert all(earlier < later for earlier, later in pairwise(in_order))


def test_an_append_of_one_plan_has_one_version() -> None:
    assert version(PLAN, 1, 1, "append") == version(PLAN, 1, 2, "append")


def test_each_run_task_and_split_is_an_application_of_its_own() -> None:
    other_run = plan([planned(0, 0, 10)], run=replace(RUN, run_id="another"))
    other_task = plan([planned(0, 0, 10)], run=replace(RUN, task_id="another"))
    attempts = [
        Attempt(PLAN, 0, 1, 1),
        Attempt(PLAN, 1, 1, 1),
        Attempt(other_run, 0, 1, 1),
        Attempt(other_task, 0, 1, 1),
    ]
    assert len({table_options(attempt, "delta", "overwrite")["txnAppId"] for attempt in attempts}) == 4
    ids = [
        table_options(Attempt(made, 0, n, 1), "delta", "overwrite")["txnAppId"]
        for n, made in ((1, PLAN), (2, SUCCESSOR))
    ]
    assert ids[0] == ids[1]  # the plans of one run and split, so that the later wins


def test_an_overwrite_replaces_the_rows_of_its_run_and_split_only() -> None:
    options = table_options(Attempt(PLAN, 1, 1, 1), "delta", "overwrite")
    assert options["replaceWhere"] == "run = 'scheduled__2026-11-20T10:00:00+00:00' AND split = 1"
    assert row_filter("it's \\ odd", 0) == r"run = 'it\'s \\ odd' AND split = 0"


def test_a_snapshot_of_iceberg_says_by_which_plan_it_was_made() -> None:
    assert table_options(Attempt(PLAN, 1, 1, 2), "iceberg", "overwrite") == {
        "snapshot-property.kafka-offsets.plan-id": PLAN.plan_id,
        "snapshot-property.kafka-offsets.run-id": RUN.run_id,
        "snapshot-property.kafka-offsets.split": "1",
        "snapshot-property.kafka-offsets.attempt": "2",
    }


@pytest.mark.parametrize(
    ("made", "table_format", "mode", "said"),
    [
        pytest.param(SUCCESSOR, "delta", "append", "replaceWhere", id="the former plan's rows would stay"),
        pytest.param(PLAN, "iceberg", "append", "leaves its rows twice", id="Iceberg cannot skip a repeat"),
        pytest.param(PLAN, "hudi", "overwrite", "'delta' and 'iceberg'", id="unknown format"),
        pytest.param(PLAN, "delta", "merge", "'overwrite'", id="unknown mode"),
    ],
)
def test_a_write_that_cannot_be_repeated_is_refused(made: Any, table_format: Any, mode: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        table_options(Attempt(made, 0, 1, 1), table_format, mode)
