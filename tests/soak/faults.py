"""What goes wrong in a soak, drawn at random. Each says what it was done to, or that there was nothing."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from testbed.secured_broker import SecuredBroker
from testbed.standalone import AirflowFailed, StandaloneAirflow

DAG_ID = "soak"
PAUSE_S = 8.0


@dataclass
class Faults:
    """:ivar done: how often each was done, by its name."""

    airflow: StandaloneAirflow
    kafka: SecuredBroker
    store_pid: int
    draw: random.Random
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)

    def strike(self) -> str:
        """Do one, of those that were done least often."""
        kinds: dict[str, Callable[[], str | None]] = {
            "driver killed": self._kill_driver,
            "task killed": self._kill_task,
            "broker hangs": self._hang_broker,
            "broker restarted": self._restart_broker,
            "S3 hangs": self._hang_store,
            "run cleared": self._clear_run,
            "Spark task cleared": self._clear_spark,
            "run started by hand": self._start_run,
        }
        order = sorted(kinds, key=lambda kind: (self.done[kind], self.draw.random()))
        for kind in order:
            with suppress(AirflowFailed, KeyError, psutil.Error):  # it ended meanwhile
                said = kinds[kind]()
                if said is not None:
                    self.done[kind] += 1
                    return f"{kind}: {said}"
        return "nothing to strike"

    @property
    def kinds(self) -> int:
        return len(self.done)

    def _kill_driver(self) -> str | None:
        drivers = [p for p in _processes() if "org.apache.spark.deploy.SparkSubmit" in _words(p)]
        if not drivers:
            return None
        chosen = self.draw.choice(drivers)
        chosen.kill()
        return f"process {chosen.pid}"

    def _kill_task(self) -> str | None:
        """The process of a task that is running, of any kind."""
        for run_id in sorted(self._runs("running"), reverse=True):
            for task in ("orders.resolve", "orders.commit", "orders.spark", "orders.wait_for_partitions"):
                pid = self.airflow.task_pid(DAG_ID, run_id, task)
                if pid is not None:
                    psutil.Process(pid).kill()
                    return f"{task} of {run_id}"
        return None

    def _hang_broker(self) -> str:
        self.kafka.plain.pause()
        self.over.wait(PAUSE_S)
        self.kafka.plain.resume()
        return f"{PAUSE_S:.0f} s"

    def _restart_broker(self) -> str:
        self.kafka.plain.restart()
        return "on the same data"

    def _hang_store(self) -> str:
        server = psutil.Process(self.store_pid)
        server.send_signal(signal.SIGSTOP)
        self.over.wait(PAUSE_S)
        server.send_signal(signal.SIGCONT)
        return f"{PAUSE_S:.0f} s"

    def _clear_run(self) -> str | None:
        runs = sorted(self._runs("success", "failed"))
        if not runs:
            return None
        chosen = self.draw.choice(runs)
        self.airflow.clear_run(DAG_ID, chosen)
        return chosen

    def _clear_spark(self) -> str | None:
        """Only Spark, of a batch that is committed."""
        runs = [run for run in sorted(self._runs("success")) if self.airflow.task(DAG_ID, run, "orders.spark", 0)]
        if not runs:
            return None
        chosen = self.draw.choice(runs)
        self.airflow.clear_task(DAG_ID, chosen, ["orders.spark"], downstream=self.draw.random() < 0.5)
        return chosen

    def _start_run(self) -> str:
        return self.airflow.trigger(DAG_ID)

    def _runs(self, *states: str) -> list[str]:
        return [run for run, state in self.airflow.runs(DAG_ID).items() if state in states]


def _processes() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []
