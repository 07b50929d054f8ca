"""The demo in the hands of somebody impatient, and on a cluster that is not there. `make demo` runs it whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from testbed.topics import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.starts_processes]


def start(folder: Path, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "testbed.demo", str(folder)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def working_in(folder: Path) -> list[str]:
    """The command line of every process on the machine that has the folder in it or in its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            if process.pid != os.getpid() and str(folder) in " ".join([command, *process.environ().values()]):
                found.append(command)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


def test_ctrl_c_in_the_middle_of_a_spark_job_leaves_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    demo = start(folder)
    try:
        wait_for("a Spark job runs", lambda: any("SparkSubmit" in command for command in working_in(folder)), 240)
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=60)

        assert demo.returncode == 130, output
        assert "Stopped; nothing is left running." in output
        assert working_in(folder) == []
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)


def test_a_cluster_that_does_not_answer_ends_the_demo_with_a_reason(tmp_path: Path) -> None:
    demo = start(tmp_path / "demo", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1")
    output, _ = demo.communicate(timeout=120)
    assert demo.returncode == 1, output
    assert "127.0.0.1:1" in output
    assert "Traceback" not in output
