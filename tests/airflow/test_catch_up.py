"""The DAG of docs/catch-up.md as it is printed: each run under a cap starts one next run, and the last starts none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets
from testbed.dag_runs import clear_tasks, continue_run, load_dag, run_dag
from tests.airflow.reader import all_rows, read_split
from tests.docs.pages import DOCS, blocks_of


@dataclass
class Page:
    """The page's DAG with a test's own cap, output and names: the topic, the group and the DAG have one name."""

    broker: KafkaBroker
    topic: str
    file: Path
    output: Path

    @property
    def dag(self) -> Any:
        return load_dag(self.file, self.topic)

    def write(self) -> None:
        (block,) = (block for block in blocks_of(DOCS / "catch-up.md") if block.language == "python")
        code = block.code
        for printed, own in (
            ('"orders_in_caps"', f'"{self.topic}"'),
            ('["orders"]', f'["{self.topic}"]'),
            ('"orders-in-caps"', f'"{self.topic}"'),
            ("1_000_000", "4"),
            ('"/lake/orders-in-caps"', f'"{self.output}"'),
        ):
            assert printed in code
            code = code.replace(printed, own)
        self.file.write_text(code)

    @property
    def started(self) -> list[Any]:
        """The runs that `next_run` has started, the oldest first."""
        from airflow.models.dagrun import DagRun

        runs = DagRun.find(dag_id=self.topic)
        return sorted((run for run in runs if run.run_id.startswith("after__")), key=lambda run: run.run_id)


@pytest.fixture
def page(
    airflow: Path, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Page]:
    def stands_for_spark(task: SparkSubmitPlanOperator, context: Any) -> None:
        read_split(task.application_args)

    monkeypatch.setattr(SparkSubmitPlanOperator, "execute", stands_for_spark)
    name = topic(1)
    page = Page(broker, name, airflow / "dags" / f"{name}.py", tmp_path / "rows")
    page.write()
    yield page
    page.file.unlink()


def test_one_run_reads_a_backlog_of_several_caps_to_the_end(
    page: Page, set_run_state: Callable[[Any, str], None]
) -> None:
    page.broker.produce_many(page.topic, 10, partitions=1, value=lambda n: str(n).encode())
    assert run_dag(page.dag).states("next_run") == ["success"]
    for number in (1, 2):
        assert len(page.started) == number
        following = page.started[-1]
        assert str(following.state) == "queued"
        set_run_state(following, "running")  # as the scheduler does
        assert continue_run(page.dag, following.run_id).state == "success"
    assert len(page.started) == 2, "the last one had all that was there"
    assert committed_offsets(page.broker, page.topic, page.topic) == {0: 10}
    assert all_rows(page.output) == sorted(map(str, range(10)))


@pytest.mark.parametrize("task_id", ["next_run", "orders.commit"])
def test_a_task_that_is_done_again_starts_no_second_run(page: Page, task_id: str) -> None:
    """As a retry after a crash does it, or a clear: the batch has its run already."""
    page.broker.produce_many(page.topic, 10, partitions=1, value=lambda n: str(n).encode())
    dag = page.dag
    run = run_dag(dag)
    clear_tasks(dag, run.run_id, task_id)
    again = continue_run(dag, run.run_id)
    assert (again.state, again.states("next_run")) == ("success", ["skipped"])
    assert len(page.started) == 1


def test_a_batch_that_had_all_starts_no_run(page: Page) -> None:
    page.broker.produce_many(page.topic, 4, partitions=1, value=lambda n: str(n).encode())
    run = run_dag(page.dag)
    assert (run.state, run.states("next_run")) == ("success", ["skipped"])
    assert page.started == []
