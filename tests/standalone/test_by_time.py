"""Schedules, backfills, runs by hand and after an asset, on a real scheduler: what each run read is what was produced.

Records carry their hour as value, so an output shows whether it holds its own window and nothing else.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from testbed.postgres import tables_of
from tests.standalone.conftest import SECRET
from tests.standalone.site import DAY, HOUR, LAST, PARTITIONS, RECORDS, START, Site, of_hour


def test_a_schedule_of_several_intervals_reads_each_record_once_and_late_ones_in_the_next_run(site: Site) -> None:
    """Position and ``bounded_mode="timestamp"``: the recommended pair for a live schedule."""
    dag_id = "live_hourly"
    topic = site.hours(4, START)
    site.produce(topic, LAST)  # of an interval that is not over: no run may read them
    site.airflow.set_variable("by_time_topic", topic)
    site.airflow.pause(dag_id, paused=False)

    def states() -> list[str]:
        return [state for _, state in sorted(site.airflow.runs(dag_id).items())]

    site.airflow.wait_until("four runs have succeeded", lambda: states().count("success") >= 4, 240)
    site.airflow.pause(dag_id)
    runs = sorted(site.airflow.runs(dag_id))[:4]
    assert [site.read(dag_id, topic, run_id) for run_id in runs] == [of_hour(START + n * HOUR) for n in range(4)]
    assert site.committed(dag_id, topic) == dict.fromkeys(range(PARTITIONS), 4 * RECORDS)


def test_days_of_a_live_schedule_are_done_again_by_a_backfill_that_reprocesses_them(site: Site) -> None:
    """As `airflow backfill create --reprocess-behavior completed` makes it: the runs that there are, cleared, of type
    backfill; each does its own batch."""
    dag_id = "reprocessed_hourly"
    topic = site.hours(2, LAST - 2 * HOUR)
    site.airflow.set_variable("by_time_topic", topic)
    site.airflow.pause(dag_id, paused=False)

    def states() -> list[str]:
        return [state for _, state in sorted(site.airflow.runs(dag_id).items())]

    site.airflow.wait_until("two runs have succeeded", lambda: states().count("success") >= 2, 240)
    runs = sorted(site.airflow.runs(dag_id))[:2]
    before = site.rows(dag_id, topic)
    assert [site.read(dag_id, topic, run) for run in runs] == [of_hour(LAST - 2 * HOUR), of_hour(LAST - HOUR)]
    position = site.committed(dag_id, topic)
    site.produce(topic, LAST)  # what has come since is not for them

    again = {"reprocess_behavior": "completed", "max_active_runs": 1}
    site.airflow.create_backfill(dag_id, LAST - 2 * HOUR, LAST - HOUR, **again)
    site.airflow.wait_until(
        "both have been read twice", lambda: [site.attempts(dag_id, topic, run) for run in runs] == [2, 2], 240
    )
    assert [site.airflow.wait_for_run(dag_id, run) for run in runs] == ["success"] * 2
    site.airflow.pause(dag_id)

    assert (site.rows(dag_id, topic), len(before)) == (before, 2)
    assert site.committed(dag_id, topic) == position
    newest = site.airflow.task(dag_id, runs[0], "resolve").tries
    assert "This run does batch 1 once more" in site.airflow.task_log(dag_id, runs[0], "resolve", newest)


def test_a_backfill_that_would_plan_batches_of_the_log_is_refused(site: Site) -> None:
    """It would take the live position's records into hours that they are not of."""
    dag_id, topic = "log_without_a_past", site.hours(2, START)
    site.airflow.create_backfill(dag_id, START, START + HOUR, dag_run_conf={"topic": topic}, max_active_runs=1)

    def refused() -> dict[str, str]:
        return {run: state for run, state in site.airflow.runs(dag_id).items() if run.startswith("backfill__")}

    site.airflow.wait_until("both runs are over", lambda: list(refused().values()) == ["failed"] * 2, 240)
    assert [site.airflow.task(dag_id, run, "resolve").tries for run in refused()] == [1, 1], "no retry can help"
    assert "A backfill run does its own batch again, or reads a window" in site.log_of_resolve(dag_id, min(refused()))
    assert site.log(dag_id, topic).newest() is None


def test_two_runs_at_once_do_one_batch_after_the_other(site: Site, tmp_path: Path) -> None:
    """The second one waits in the triggerer, without a try, and goes on once the first has committed."""
    dag_id, go = "two_at_once", tmp_path / "go"
    topic = site.hours(1, START)
    first = site.airflow.trigger(dag_id, {"topic": topic, "go": str(go)})
    site.airflow.wait_for_task(dag_id, first, "read", lambda task: task.state == "running", map_index=0)
    site.produce(topic, START + HOUR)
    second = site.airflow.trigger(dag_id, {"topic": topic})
    site.airflow.wait_for_task(dag_id, second, "resolve", lambda task: task.state == "deferred")

    go.touch()

    assert [site.airflow.wait_for_run(dag_id, run) for run in (first, second)] == ["success"] * 2
    assert site.airflow.task(dag_id, second, "resolve").tries == 1
    assert f"batch 1 is being done by run {dag_id}/{first}/resolve, which is running" in site.log_of_resolve(
        dag_id, second
    )
    assert [site.read(dag_id, topic, run) for run in (first, second)] == [of_hour(START), of_hour(START + HOUR)]
    assert len(site.rows(dag_id, topic)) == 2
    assert site.committed(dag_id, topic) == dict.fromkeys(range(PARTITIONS), 2 * RECORDS)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_a_backfill_of_a_day_reads_each_window_once_into_its_own_output(site: Site, backwards: bool) -> None:
    """Three at once; then the same day reprocessed. No group is touched, and no position kept."""
    dag_id = "windows_hourly"
    topic = site.hours(26, DAY - HOUR)  # an hour more on both sides
    end = DAY + 23 * HOUR
    how = {"run_backwards": backwards, "max_active_runs": 3, "reprocess_behavior": "completed" if backwards else "none"}
    backfill = site.airflow.create_backfill(dag_id, DAY, end, dag_run_conf={"topic": topic}, **how)

    def filled() -> dict[str, str]:
        return {run: state for run, state in sorted(site.airflow.runs(dag_id).items()) if run.startswith("backfill__")}

    site.airflow.wait_until("24 windows have been read", lambda: list(filled().values()) == ["success"] * 24, 420)
    site.airflow.wait_until("the backfill is over", lambda: site.airflow.backfill_is_over(backfill), 60)
    assert [site.read(dag_id, topic, run_id) for run_id in filled()] == [of_hour(DAY + n * HOUR) for n in range(24)]
    assert site.committed(dag_id, topic) == {}
    assert len(site.rows(dag_id, topic)) == 24
    assert site.log(dag_id, topic).newest() is None, "a window keeps no position"


def test_a_run_whose_interval_has_no_length_is_an_error_that_names_the_timetable(site: Site) -> None:
    topic = site.hours(2, START)
    run_id = site.run("windows_without_intervals", "failed", conf={"topic": topic}, logical_date=START)
    assert "CronDataIntervalTimetable" in site.log_of_resolve("windows_without_intervals", run_id)
    assert site.read("windows_without_intervals", topic, run_id) == []


def test_a_run_by_hand_reads_the_window_that_it_names(site: Site) -> None:
    topic = site.hours(3, START)
    conf = {"topic": topic, "from": (START + HOUR).isoformat(), "until": (START + 2 * HOUR).isoformat()}
    site.airflow.cli("dags", "trigger", "windows_by_hand", "--run-id", topic, "--conf", json.dumps(conf))
    assert site.airflow.wait_for_run("windows_by_hand", topic) == "success"
    assert site.read("windows_by_hand", topic, topic) == of_hour(START + HOUR)


def test_a_run_by_hand_of_an_hourly_dag_without_a_date_says_what_is_missing(site: Site) -> None:
    topic = site.hours(1, START)
    run_id = site.run("windows_hourly", "failed", conf={"topic": topic})
    assert "no data interval" in site.log_of_resolve("windows_hourly", run_id)


def test_a_run_after_an_asset_reads_from_its_position_and_a_window_says_what_is_missing(site: Site) -> None:
    topic = site.hours(1, START)
    site.airflow.set_variable("by_time_topic", topic)
    site.run("produces_the_asset")

    def over(dag_id: str, count: int) -> bool:
        return sum(state in ("success", "failed") for state in site.airflow.runs(dag_id).values()) == count

    site.airflow.wait_until(
        "both runs are over", lambda: over("after_an_asset", 1) and over("windows_after_an_asset", 1), 120
    )
    [(run_id, state)] = site.airflow.runs("after_an_asset").items()
    assert (state, site.read("after_an_asset", topic, run_id)) == ("success", of_hour(START))
    [(run_id, state)] = site.airflow.runs("windows_after_an_asset").items()
    assert state == "failed"
    assert "no data interval" in site.log_of_resolve("windows_after_an_asset", run_id)
    assert site.committed("after_an_asset", topic) == dict.fromkeys(range(PARTITIONS), RECORDS)


def test_a_deferred_sensor_survives_a_restart_of_the_triggerer(site: Site) -> None:
    dag_id, topic = "waits_in_the_triggerer", f"later-{uuid.uuid4().hex[:8]}"
    run_id = site.airflow.trigger(dag_id, {"topic": topic})
    site.airflow.wait_for_task(dag_id, run_id, "wait", lambda task: task.state == "deferred")
    said = f"Waiting: topic {topic} does not exist"
    site.airflow.wait_until(
        "the triggerer says what is missing, too, where the task's log is",
        lambda: (
            site.airflow.task_log(dag_id, run_id, "wait").count(said) == 1
            and site.trigger_log(dag_id, run_id, "wait").count(said) >= 2
        ),
        60,
    )
    site.airflow.kill_part("triggerer")
    site.airflow.start_part("triggerer")
    site.broker.create_topic(topic, 1)
    assert site.airflow.wait_for_run(dag_id, run_id) == "success"


def test_nothing_that_all_these_runs_have_left_holds_a_secret(site: Site) -> None:
    """Logs, database (with XComs, rendered fields and triggers' arguments), work store, outputs."""
    topic = site.hours(1, START)
    run_id = site.run("two_at_once", conf={"topic": topic})
    assert site.read("two_at_once", topic, run_id) == of_hour(START)
    files = [file for folder in (site.airflow.home, site.output) for file in folder.rglob("*") if file.is_file()]
    holding = {file.suffix for file in files if topic.encode() in file.read_bytes() or topic in file.name}
    assert {".log", ".json"} <= holding, "the search looks where a topic's name is"
    tables = tables_of(site.airflow.database)
    assert all(topic.encode() in tables[table] for table in ("dag_run", "rendered_task_instance_fields", "xcom"))
    assert [table for table, rows in tables.items() if SECRET.encode() in rows] == []
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []
