"""docs/first-batch.md, as a new user follows it: its own text, the built wheel, a fresh environment, to rows on disk.

What is put in the place of the page's words is only what differs from machine to machine: the broker's address, the
folder, the wheel that is not on an index yet, and the constraints file, for which the project's own pins stand in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer, TopicPartition

from testbed.broker import KafkaBroker
from testbed.java import Java

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "first-batch.md").read_text()
CONSTRAINTS = re.compile(r"https://raw\.githubusercontent\.com/apache/airflow/constraints-\S+\.txt")


def blocks(language: str, text: str) -> list[str]:
    """The code blocks of a language, without the list's indentation."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}")[1].split("\n## ")[0]


def commands(text: str) -> list[str]:
    return [line.removeprefix("$ ") for block in blocks("console", text) for line in block.splitlines()]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A new user's home; without what is large when the test is over."""
    home = tmp_path / "home"
    home.mkdir()
    yield home
    for name in ("venv", ".ivy2", ".ivy2.5.2", ".cache"):
        shutil.rmtree(home / name, ignore_errors=True)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", str(tmp_path / "dist"), str(ROOT)], check=True
    )
    return next((tmp_path / "dist").glob("*.whl"))


@pytest.fixture
def constraints(tmp_path: Path) -> Path:
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([\w.-]+)(?:\[\S*\])?(==[^\\\n]*)", lock, re.MULTILINE)  # a constraint has no extras
    file = tmp_path / "constraints.txt"
    file.write_text("\n".join(f"{name}{version}" for name, version in pins))
    return file


@pytest.fixture
def machine(home: Path, java: Java) -> dict[str, str]:
    """The variables of a machine that has a Python 3.11, a Java, and nothing of this checkout's environment."""
    own = home / "bin"
    own.mkdir()
    (own / "python3.11").symlink_to(Path(sys.executable).resolve())
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return {**pip, "HOME": str(home), "PATH": f"{own}:{java.home}/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture
def users_broker(java: Java, tmp_path: Path) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path / "kafka", java=java) as broker:
        yield broker


def test_the_quickstart_leads_to_rows_on_disk(
    users_broker: KafkaBroker, machine: dict[str, str], home: Path, wheel: Path, constraints: Path
) -> None:
    broker, lake = users_broker, home / "lake"
    broker.create_topic("orders", 3)
    broker.produce("orders", [(n % 3, None, b'{"id": %d, "amount": 1.5}' % n, None) for n in range(300)])
    instead = {
        "localhost:9092": broker.bootstrap_servers,
        "/tmp/lake": str(lake),
        "'airflow-kafka-offsets[spark]'": f"'{wheel}[spark]'",
        CONSTRAINTS.search(PAGE)[0]: str(constraints),  # type: ignore[index]
    }

    def on_this_machine(text: str) -> str:
        for words, here in instead.items():
            text = text.replace(words, here)
        return text

    quickstart = section("Quickstart")
    dag = home / "airflow/dags/orders_to_lake.py"
    assert f"~/{dag.relative_to(home)}" in quickstart
    dag.parent.mkdir(parents=True)  # the page's user saves the file in the middle of the commands
    dag.write_text(on_this_machine(blocks("python", PAGE)[0]))
    script = [on_this_machine(command) for command in commands(quickstart)]

    def run(lines: list[str]) -> str:
        text = "\n".join(["set -euo pipefail", *lines])
        done = subprocess.run(["bash", "-c", text], cwd=home, env=machine, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout + done.stderr

    said = run(script)
    assert "This run committed batch 1" in said
    assert rows_of(lake) == {(p, o) for p in range(3) for o in range(100)}
    assert committed(broker) == [100, 100, 100]

    broker.produce("orders", [(0, None, b'{"id": 300, "amount": 1.5}', None)])
    run([command for command in script if not command.startswith(("pip ", "python -c"))])
    assert rows_of(lake) == {(p, o) for p in range(3) for o in range(100)} | {(0, 100)}


def committed(broker: KafkaBroker) -> list[int]:
    """The next offset of each partition that the page's group would read."""
    consumer = Consumer({**broker.client_config, "group.id": "orders-to-lake"})
    try:
        return [
            found.offset for found in consumer.committed([TopicPartition("orders", p) for p in range(3)], timeout=30)
        ]
    finally:
        consumer.close()


def rows_of(lake: Path) -> set[tuple[int, int]]:
    """Partition and offset of every row in the whole folder, each of which is there once."""
    table = ds.dataset(str(lake / "orders"), partitioning="hive").to_table(columns=["partition", "offset"])
    rows = list(zip(*(table[name].to_pylist() for name in ("partition", "offset")), strict=True))
    assert len(rows) == len(set(rows))
    return set(rows)
