"""`make demo UI=1`: the demo's runs in Airflow's pages, and an end that leaves nothing running."""

import os
import re
import signal
from pathlib import Path

import httpx

from tests.test_demo import start, working_in


def test_the_demos_runs_are_in_airflows_pages_until_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    demo = start(folder, UI="1")
    assert demo.stdout is not None
    try:
        said = []
        for line in demo.stdout:
            said.append(line)
            if line.startswith("User "):
                break
        shown = "".join(said)
        address = re.search(r"^Airflow: (http://127\.0\.0\.1:\d+)$", shown, re.MULTILINE)
        login = re.search(r"^User (\w+), password ([\w-]+)\.", shown, re.MULTILINE)
        assert address is not None, shown
        assert login is not None, shown
        with httpx.Client(base_url=address[1], timeout=60) as browser:
            assert browser.get("/api/v2/dags").status_code == 401, "nobody comes in without the login"
            wrong = {"username": login[1], "password": "wrong"}
            assert browser.post("/auth/token", json=wrong).status_code == 401
            token = browser.post("/auth/token", json={"username": login[1], "password": login[2]}).json()
            browser.headers["Authorization"] = f"Bearer {token['access_token']}"
            for dag_id, states in {
                "kafka_hourly_batch": [*["success"] * 4, "failed", "success", "success"],
                "kafka_typed_orders": None,
            }.items():
                runs = browser.get(f"/api/v2/dags/{dag_id}/dagRuns", params={"order_by": "id"}).json()["dag_runs"]
                assert [run["state"] for run in runs] == (states or ["success"] * len(runs))
                assert runs
            assert "<html" in browser.get("/").text, "and there are pages, not the API alone"
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=60)
        assert demo.returncode == 0, rest
        assert "nothing is left running" in rest
        assert working_in(folder) == []
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)


def test_a_word_that_ui_does_not_know_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    demo = start(tmp_path / "demo", UI="yes")
    output, _ = demo.communicate(timeout=120)
    assert demo.returncode == 1
    assert "UI is 'yes'; it can be 1" in output
    assert "Kafka" not in output
