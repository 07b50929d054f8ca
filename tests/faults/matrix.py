"""The fault matrix: what is broken and when, and what a reader of the output and of the group then finds.

``docs/fault-matrix.md`` is made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from testbed.checks import files_of_delta
from testbed.topics import wait_for
from tests.faults.scene import BY_WINDOW, GROUP, ONE_TASK, WITH_MERGE, Scene

BODY, HEADER, BOUND = "batches/*/*/1-*.ranges.json", "batches/*/*/1.json", "runs/*/*/*/*.json"
ATTEMPT, REPORT, COMMIT = "batches/*/*/*.begun.json", "batches/*/*/*.report.json", "batches/*/*/2.json"


@dataclass(frozen=True, slots=True)
class Row:
    """
    :ivar play: brings the fault about, lets the run or the next one end, and counts.
    :ivar dags: of ``dags/faults.py``: the task group, the one task, or both.
    """

    name: str
    fault: str
    play: Callable[[Scene], None]
    follows: str = "Airflow retries the task"
    stops_the_broker: bool = False
    dags: tuple[str, ...] = (GROUP, ONE_TASK)

    @property
    def run_by(self) -> str:
        return ", ".join("group" if dag_id == GROUP else "one task" for dag_id in self.dags)


def lose_worker(when: str, name: str, there: str, absent: str) -> Callable[[Scene], None]:
    """:param there: a glob in the log that shows with ``absent`` at which moment the worker was killed."""

    def play(scene: Scene) -> None:
        scene.produce()
        run_id = scene.run_and_lose_the_worker(when, name)
        assert list(scene.log.glob(there))
        assert not list(scene.log.glob(absent))
        assert scene.state[1] == {}  # the group has not followed yet
        assert scene.retry(run_id).state == "success"
        scene.assert_exact(batches=1)
        assert len([*scene.log.glob(ATTEMPT)]) == 1  # what was written is not written again

    return play


Fact = Callable[[Scene], bool]


def logged(name: str) -> Fact:
    """:param name: a glob in the log."""
    return lambda scene: any(scene.log.glob(name))


def written(scene: Scene) -> bool:
    return any(scene.output.glob("part-*.parquet"))


def visible(scene: Scene) -> bool:
    """Whether a commit of the table has files."""
    return bool(files_of_delta(scene.output))


def kill_spark(there: Fact, not_yet: Fact) -> Callable[[Scene], None]:
    """Kill it as soon as the one is so, and the other is not yet."""

    def play(scene: Scene) -> None:
        scene.produce()
        with scene.at(there, partial(scene.kill_spark, not_yet)):
            run = scene.run()
        assert (run.state, scene.tries(run, "spark")) == ("success", 2)
        scene.assert_exact(batches=1)

    return play


def lose_worker_and_driver(scene: Scene) -> None:
    scene.produce()
    run_id = scene.run_and_lose_all(written)
    assert not visible(scene)
    assert scene.retry(run_id).state == "success"
    scene.assert_exact(batches=1)


def restart_broker(scene: Scene) -> None:
    scene.produce()
    with scene.at(logged(ATTEMPT), scene.broker.restart):
        assert scene.run().state == "success"
    scene.assert_exact(batches=1)


def stop_broker(scene: Scene) -> None:
    told, hold = (Path(f"{scene.output}.orders.commit.{name}") for name in ("retry", "hold"))

    def stop() -> None:
        hold.touch()
        scene.broker.stop()
        wait_for("the commit is to be retried", told.exists, 300)
        scene.broker.start()
        hold.unlink()

    scene.produce()
    with scene.at(logged(REPORT), stop):
        run = scene.run()
    assert (run.state, scene.tries(run, "commit")) == ("success", 2)
    scene.assert_exact(batches=1)


def expire_records(scene: Scene) -> None:
    scene.produce()
    assert scene.run().state == "success"
    before = scene.state
    scene.produce()
    expire = partial(scene.broker.delete_records, {(scene.topic, n): end - 10 for n, end in scene.ends.items()})
    with scene.at(logged("batches/*/0000000002/1.json"), expire):
        run = scene.run()
    assert (run.states(scene.task("spark")), scene.state) == (["failed"], before)
    scene.run_refused("DataLoss")


def run_beside(scene: Scene) -> None:
    scene.produce()
    first = scene.run_and_lose_the_worker("after", "/runs/")  # Airflow has not missed it yet
    second = scene.run_refused("OverlappingRun")
    assert scene.state == ([], {})
    assert scene.retry(first).state == "success"
    scene.produce()
    assert scene.clear(second.run_id).state == "success"
    scene.assert_exact(batches=2)


def clear_run(scene: Scene) -> None:
    scene.produce()
    run, files = scene.run(), set(files_of_delta(scene.output))
    scene.produce()
    assert scene.clear(run.run_id).state == "success"
    assert not files & set(files_of_delta(scene.output))  # written again
    assert len(scene.state[0]) == scene.produced // 2
    assert scene.run().state == "success"
    scene.assert_exact(batches=2)


def time_out(scene: Scene) -> None:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    scene.produce(round(end.timestamp() * 1000) - 60_000)
    scene.said()
    run = scene.run(logical_date=end)
    assert (run.states("orders"), scene.tries(run, "wait")) == (["failed"], 1)
    assert "Still missing" in scene.said()
    assert not scene.log.exists()
    scene.produce()
    assert scene.clear(run.run_id).state == "success"
    assert scene.state == ([*range(scene.produced // 2)], {})
    scene.assert_whole(batches=1)


ROWS = (
    Row(
        "resolve-before-plan",
        "The worker is killed after the plan's offsets are stored, before the plan",
        lose_worker("before", r"batches/.*/1\.json", there=BODY, absent=HEADER),
    ),
    Row(
        "resolve-before-run",
        "The worker is killed after the plan is stored, before the run is bound to the batch",
        lose_worker("before", "/runs/", there=HEADER, absent=BOUND),
    ),
    Row(
        "spark-not-started",
        "The worker is killed after the run is bound to the batch, before Spark",
        lose_worker("after", "/runs/", there=BOUND, absent=ATTEMPT),
        dags=(ONE_TASK,),
    ),
    Row(
        "spark-begun",
        "The Spark driver is killed after its attempt has begun",
        kill_spark(logged(ATTEMPT), not_yet=written),
        dags=(GROUP,),
    ),
    Row(
        "spark-writing",
        "The Spark driver is killed while it writes files that no commit of the table has",
        kill_spark(written, not_yet=visible),
    ),
    Row(
        "spark-worker-lost",
        "The worker is killed, and with it the driver, while that writes",
        lose_worker_and_driver,
        dags=(ONE_TASK,),
    ),
    Row(
        "spark-before-report",
        "The Spark driver is killed after its commit to the table, before its report",
        kill_spark(visible, not_yet=logged(REPORT)),
    ),
    Row(
        "commit-before-entry",
        "The worker is killed before the batch is committed",
        lose_worker("before", r"/2\.json", there=REPORT, absent=COMMIT),
    ),
    Row(
        "commit-before-group",
        "The worker is killed after the batch is committed, before the group and the merge",
        lose_worker("after", r"/2\.json", there=COMMIT, absent="batches/*/*/3.json"),
        dags=(GROUP, WITH_MERGE),
    ),
    Row(
        "broker-restarted",
        "The broker is stopped and started again while Spark reads",
        restart_broker,
        "Spark waits for it, or Airflow retries the task",
        stops_the_broker=True,
        dags=(GROUP,),
    ),
    Row(
        "broker-down",
        "The broker is stopped before the commit; it is back at the retry",
        stop_broker,
        stops_the_broker=True,
        dags=(GROUP,),
    ),
    Row(
        "records-expired",
        "Retention takes records after the plan, before Spark reads them",
        expire_records,
        "The run fails, and the next one with `DataLoss`, until a person decides. Output and group stay as they were",
    ),
    Row(
        "second-run",
        "A second run starts while the first one runs",
        run_beside,
        "It fails with `OverlappingRun`. When the first one has ended, it is cleared and reads what is new",
    ),
    Row(
        "run-cleared",
        "The whole run is cleared after its success; there are new records",
        clear_run,
        "It writes its batch again; the next run reads what is new",
    ),
    Row(
        "window-timed-out",
        "The wait for a window times out while the task is deferred; then the window is complete",
        time_out,
        "The run fails. When it is cleared, it reads the window",
        dags=(BY_WINDOW,),
    ),
)
