"""Whole drivers that are killed at each step, and two drivers of one batch, into each sink: rows are there once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.attempts import Attempt
from airflow_kafka_offsets.spark.errors import LateAttempt
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.sinks import plain_sink
from tests.spark.killed_driver import IN_THE_WRITE, run_and_kill
from tests.spark.plans import PlannedBatch, Plans
from tests.spark.sinks.conftest import KINDS
from tests.spark.sinks.outputs import Output, members_at

pytestmark = pytest.mark.long

PARTITIONS, OFFSETS = 4, 5
EACH_ONCE = [(offset, str(partition)) for offset in range(OFFSETS) for partition in range(PARTITIONS)]
ROWS = {"key": {"format": "bytes"}, "value": {"format": "bytes"}, "where": None, "expect": {}, "ensure": {}}


@dataclass
class Scene:
    """A batch, and two jobs for it: rows of the first one say `old`, of the second one `new`."""

    output: Output
    batch: PlannedBatch
    folder: Path

    def arguments(self, version: str) -> list[str]:
        rows = {**ROWS, "select": ["CAST(partition AS STRING) AS day", f"'{version}' AS value"]}
        job = {"output": self.output.sink.output, "sink": self.members, "rows": rows}
        return self.batch.arguments(self.batch.job(job))

    def write(self, version: str) -> None:
        write_batch(self.output.spark, self.arguments(version))

    @property
    def members(self) -> dict[str, Any]:
        return members_at(self.output.sink.output.partition(":")[0], self.folder)

    @property
    def seen(self) -> set[str]:
        """The versions that a reader of the output sees: each record once, or nothing."""
        if self.output.sink.read(self.output.spark) is None:
            return set()
        rows = self.output.view().get(self.batch.key, [])
        assert [row[:2] for row in rows] in ([], EACH_ONCE)
        return {version for _, _, version in rows}


@pytest.fixture
def scene_of(spark: SparkSession, plans: Plans, filled: Callable[..., str], tmp_path: Path) -> Callable[..., Scene]:
    """`scene_of(kind)`: the old job has written the batch; or `is_new`: nothing was written yet."""

    def make(kind: str, *, is_new: bool = False) -> Scene:
        topic = filled(PARTITIONS * OFFSETS, partitions=PARTITIONS)
        batch = plans.batch({(topic, n): (0, OFFSETS) for n in range(PARTITIONS)})
        scene = Scene(Output(spark, plain_sink(members_at(kind, tmp_path))), batch, tmp_path)
        if not is_new:
            scene.write("old")
            assert scene.seen == {"old"}
        return scene

    return make


SEEN = {
    "before it begins": {"old"},
    "begun": {"old"},
    IN_THE_WRITE: {"old"},
    "written": {"new"},
    "reported": {"new"},
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", SEEN)
@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_killed_leaves_all_or_nothing_and_the_next_attempt_ends_its_work(
    scene_of: Callable[..., Scene], session_settings: Mapping[str, str], kind: str, moment: str
) -> None:
    scene = scene_of(kind)
    folder = Path(session_settings["spark.sql.catalog.lake.warehouse"]) if kind == "iceberg" else scene.folder / kind
    run_and_kill(moment, session_settings, folder, scene.arguments("new"))
    assert scene.seen == SEEN[moment]
    assert scene.batch.attempts == ([1] if moment == "before it begins" else [1, 2])
    assert (scene.batch.problems() == []) == (moment in ("before it begins", "reported"))
    scene.write("new")
    assert (scene.seen, scene.batch.problems()) == ({"new"}, [])


FIRST = (
    "before the table is made",
    "the table is made",
    "before the table is marked",
    IN_THE_WRITE,
    "staged",
    "written",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment"), [(kind, moment) for kind in KINDS for moment in FIRST if (kind, moment) != ("delta", "staged")]
)
def test_a_first_driver_that_is_killed_shows_no_row_that_is_not_proved(
    scene_of: Callable[..., Scene], session_settings: Mapping[str, str], kind: str, moment: str
) -> None:
    """But Delta has no place out of sight. Whatever is left, the next attempt ends exact."""
    scene = scene_of(kind, is_new=True)
    if moment == "before the table is marked":
        columns = "kafka_batch STRING, day STRING, value STRING, topic STRING, `partition` INT, offset BIGINT"
        bounds = "TBLPROPERTIES ('write.metadata.metrics.column.kafka_batch' = 'full')"
        scene.output.spark.sql(f"CREATE TABLE {scene.output.sink.name} ({columns}) USING {kind} {bounds}")
    folder = Path(session_settings["spark.sql.catalog.lake.warehouse"]) if kind == "iceberg" else scene.folder / kind
    run_and_kill(moment, session_settings, folder, scene.arguments("new"))
    assert scene.seen == ({"new"} if moment == "written" else set())
    assert (scene.batch.attempts, scene.batch.problems() == []) == ([1], False)
    scene.write("new")
    assert (scene.seen, scene.batch.problems()) == ({"new"}, [])


@pytest.mark.parametrize(
    ("kind", "look"),
    [
        pytest.param(kind, look, id=f"{kind}-{name}", marks=[] if look == 2 else [pytest.mark.slow])
        for kind in KINDS
        for look, name in {1: "begun", 2: "about to write", 3: "about to report"}.items()
    ],
)
def test_of_two_drivers_the_newer_one_has_written_whenever_it_comes(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str, look: int
) -> None:
    """It runs from its begin to its report right behind one of the looks of the older one."""
    scene = scene_of(kind)
    at_look(monkeypatch, attempt=2, number=look, act=lambda: scene.write("new"))
    try:
        scene.write("late")
    except LateAttempt:
        assert len(scene.batch.names("report")) == 2  # the old one, and the newer one
    else:
        assert look == 3  # its report has a lower number
    assert (scene.seen, scene.batch.problems()) == ({"new"}, [])


@pytest.mark.parametrize("kind", KINDS)
def test_two_drivers_that_write_at_the_same_time_leave_each_row_once(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Both have looked and found nobody newer. Where they stop each other, the next attempt ends it."""
    scene, both = scene_of(kind), threading.Barrier(2)
    with ThreadPoolExecutor(1) as pool:
        newer: list[Future[None]] = []

        def start_the_other() -> None:
            newer.append(pool.submit(scene.write, "new"))
            both.wait(300)

        at_look(monkeypatch, attempt=2, number=2, act=start_the_other)
        at_look(monkeypatch, attempt=3, number=2, act=lambda: both.wait(300))
        with pytest.raises(LateAttempt):
            scene.write("late")
        error = newer[0].exception()
    assert error is None or isinstance(error, LateAttempt)
    if error is not None:
        assert scene.batch.problems() != []
        scene.write("new")
    assert (scene.seen, scene.batch.problems()) == ({"new"}, [])


def at_look(patch: pytest.MonkeyPatch, attempt: int, number: int, act: Callable[[], object]) -> None:
    """Act once, right behind a look of the attempt: 1 behind its begin, 2 before the write, 3 before the report."""
    looks, look = 0, Attempt.look

    def look_and_act(self: Attempt) -> None:
        nonlocal looks
        look(self)
        if self.number == attempt:
            looks += 1
            if looks == number:
                act()

    patch.setattr(Attempt, "look", look_and_act)
