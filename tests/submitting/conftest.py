"""The code of docs/submitting.md as DAGs, and an Airflow that has the providers which they import."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.operators.submit import PACKAGED_JOB
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, duplicated_or_missing

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "submitting.md").read_text()
UV = [sys.executable, "-m", "uv"]
RUN = Path(__file__).with_name("run.py")


def code_of(title: str) -> str:
    """The example of a section of the page."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(code)


@dataclass
class Orders:
    """A topic, a group and an output of the test's own, in the place of those of the page."""

    broker: KafkaBroker
    topic: str
    group: str
    folder: Path
    produced: int = 0

    @property
    def output(self) -> Path:
        return self.folder / "orders"

    def produce(self, count: int) -> None:
        first = self.produced
        self.broker.produce_many(self.topic, count, value=lambda n: str(first + n).encode())
        self.produced += count

    def code(self, title: str, more: Mapping[str, str] | None = None) -> str:
        """A section's example with this machine's names: the topic, the output, the job. It looks every second."""
        names = {
            r'topics=\["orders"\]': f'topics=["{self.topic}"]',
            r'"orders-to-lake"': f'"{self.group}"',
            r"\w+://my-bucket/lake/orders": str(self.output),
            r"\w+:/[\w/.-]*/write_batch\.py": str(PACKAGED_JOB),
            r"(polling_interval|polling_period_seconds|waiter_delay)=15": r"\1=1",
            **(more or {}),
        }
        code = code_of(title)
        for name, here in names.items():
            code, found = re.subn(name, here, code)
            assert found or not more or name not in more, f"the page has no {name}"
        assert "my-bucket" not in code
        return code

    def is_exact(self) -> bool:
        return duplicated_or_missing(self.output, self.produced) == (0, 0)

    @property
    def committed(self) -> dict[int, int]:
        return committed_offsets(self.broker, self.group, self.topic)


@pytest.fixture
def orders(broker: KafkaBroker, topic: Callable[..., str], group: str, tmp_path: Path) -> Orders:
    made = Orders(broker, topic(1), group, tmp_path)
    made.produce(100)
    return made


@dataclass
class ProvidersAirflow:
    """An Airflow in an environment of its own, of which each command is a process."""

    python: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def file(self, code: str) -> tuple[Path, str]:
        """The DAG's file, and its name."""
        (name,) = re.findall(r'DAG\(\s*"(\w+)"', code)
        file = self.home / "dags" / f"{name}.py"
        file.write_text(code)
        return file, name

    def command(self, code: str, *orders: str) -> list[str]:
        file, name = self.file(code)
        return [str(self.python), str(RUN), str(file), name, *orders]

    def run(self, code: str, *orders: str, env: Mapping[str, str]) -> list[dict[str, Any]]:
        """How each run has ended: see run.py."""
        done = subprocess.run(
            self.command(code, *orders), env={**self.environment, **env}, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
        ended: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        states = [(run["state"], [(task["task_id"], task["state"]) for task in run["tasks"]]) for run in ended]
        assert all(state == "success" for state, _ in states), f"{states}\n{done.stdout[-8000:]}{done.stderr[-4000:]}"
        return ended


@pytest.fixture(scope="session")
def providers(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvidersAirflow]:
    folder = tmp_path_factory.mktemp("providers")
    python = _environment(folder)
    home = folder / "airflow"
    (home / "dags").mkdir(parents=True)
    kafka = {**broker.client_config, "group.id": "connection-group"}
    nothing_else = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment = {
        **nothing_else,
        **airflow_home.settings_for(home, home / "dags"),
        **airflow_home.connections(kafka),
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "0",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",  # the first import of the clouds' clients compiles them
        "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": str(home / "store"),
        "PYTHONPATH": str(ROOT),
    }
    subprocess.run([str(python), "-m", "airflow", "db", "migrate"], env=environment, check=True, capture_output=True)
    yield ProvidersAirflow(python, home, environment)
    shutil.rmtree(folder / "venv", ignore_errors=True)


def _environment(folder: Path) -> Path:
    """A Python with the providers, the wheel, and the Airflow that the project is tested with."""
    pins = re.findall(r"^apache-airflow\S*==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    (folder / "constraints.txt").write_text("\n".join(pins))
    python = folder / "venv" / "bin" / "python"
    wanted = ["-c", str(folder / "constraints.txt"), "-r", str(RUN.with_name("requirements.txt"))]
    for command in (
        [*UV, "build", "--quiet", "--out-dir", str(folder / "dist"), str(ROOT)],
        [*UV, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")],
    ):
        subprocess.run(command, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run([*UV, "pip", "install", "--quiet", "--python", str(python), *wanted, str(wheel)], check=True)
    return python


@pytest.fixture(scope="session")
def spark_process(
    spark_environment: Mapping[str, str],
    spark_settings: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """Variables of a `spark-submit` that is not Airflow's child."""
    defaults = airflow_home.spark_defaults(tmp_path_factory.mktemp("spark"), spark_settings)
    return {**spark_environment, **defaults, "PYTHONPATH": str(ROOT)}
