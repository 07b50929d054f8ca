"""A job that knows of no batch and gets its offsets in its own arguments: docs/existing-dag.md."""

from __future__ import annotations

import json
from pathlib import Path

from tests.airflow.conftest import Orders


def test_it_reads_each_batch_once_is_not_started_for_nothing_and_writes_a_batch_again_into_its_place(
    orders: Orders,
) -> None:
    orders.dag_id = "batch_of_an_old_job"

    def written() -> dict[str, list[str]]:
        return {file.name: json.loads(file.read_text()) for file in Path(orders.output).glob("*.json")}

    orders.produce(5)
    failed = orders.run(reject=True)
    assert (failed.state, orders.committed, list(written().values())) == ("failed", {}, [list("01234")])

    orders.produce(2)
    again = orders.run()
    assert (again.state, orders.committed, list(written().values())) == ("success", {0: 5}, [list("01234")])

    orders.run()
    assert (orders.committed, sorted(written().values())) == ({0: 7}, [list("01234"), list("56")])

    nothing = orders.run()
    assert (nothing.state, nothing.states("orders.read_by_offsets"), len(written())) == ("success", ["skipped"], 2)
