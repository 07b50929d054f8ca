"""Which run has a window, on a real file system: many runs at once, and what it costs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import StoreUnavailable, WindowRepeated
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.windows import TimeClaim
from airflow_kafka_offsets.stores.objects import WorkStore, open_work_store
from airflow_kafka_offsets.stores.windows import WindowRegister

HOUR = 3_600_000
T = 1_795_132_800_000  # 2026-11-20T00:00Z


class Counting(WorkStore):
    """Counts what it is asked."""

    asked = 0

    def create(self, name, value):
        self.asked += 1
        return super().create(name, value)

    def read(self, name):
        self.asked += 1
        return super().read(name)

    def numbers(self, folder, stem):
        self.asked += 1
        return super().numbers(folder, stem)


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return open_work_store(str(tmp_path / "store"))


def register(store, run):
    return WindowRegister(store, "c", "p", RunKey("dag", run, "resolve"), lambda run: True)


def test_a_backfill_of_a_week_of_hours_ten_at_once_gets_each_window_at_a_bounded_cost(store):
    def hold(hour):
        counting = Counting(store.root, store.uri)
        register(counting, f"hour-{hour}").hold(TimeClaim(T + hour * HOUR, T + (hour + 1) * HOUR))
        return counting.asked

    with ThreadPoolExecutor(10) as pool:
        costs = list(pool.map(hold, range(7 * 24)))
    assert max(costs) < 100  # a day has 24 windows; of the other days nothing is asked


def test_of_ten_runs_that_want_one_window_at_once_one_gets_it(store):
    def hold(number):
        try:
            register(store, f"run-{number}").hold(TimeClaim(T, T + 24 * HOUR))
        except WindowRepeated:
            return 0
        return 1

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(hold, range(10))) == 1


def test_a_half_written_object_was_never_written(store):
    folder = store.root / "windows" / "c" / "p" / "2026-11-20"
    folder.mkdir(parents=True)
    (folder / "window.1.json").write_text('{"version":1,')
    (folder / "settled.2.json").write_text('{"version":1,')
    register(store, "run").hold(TimeClaim(T, T + HOUR))  # its first ticket, 2, can never be settled
    with pytest.raises(WindowRepeated, match="run dag/run/resolve has"):
        register(store, "other").hold(TimeClaim(T, T + HOUR))


def test_a_registration_of_a_version_that_is_not_known_is_refused(store):
    store.create("windows/c/p/2026-11-20/window.1.json", {"version": 2})
    with pytest.raises(StoreUnavailable, match="version 2"):
        register(store, "run").hold(TimeClaim(T, T + HOUR))
