"""`pip install 'airflow-kafka-offsets[s3]'`, `[gcs]` and `[azure]`: from the built wheel, each in an environment of its
own, a work store opens with Airflow's connection and keeps its promise. With `[schemaregistry]`, a registry is asked.

The file systems there are those of Airflow's own providers, which the tests' own environment has for S3 alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.airflow_home import s3_connection, settings_for
from testbed.azure_server import ACCOUNT, connection_string
from testbed.http_server import HttpServer
from testbed.ports import free_ports
from tests.stores.kinds import BUCKET, azure_server, gcs_server, s3_server

ROOT = Path(__file__).resolve().parents[2]
UV = [sys.executable, "-m", "uv"]


@dataclass(frozen=True)
class Extra:
    """:ivar connection: Airflow's connection `lake` to the server at a URL, as environment variables.
    :ivar driver_uri: what the Spark driver is told.
    """

    name: str
    scheme: str
    server: Callable[[], HttpServer]
    connection: Callable[[str], dict[str, str]]
    driver_uri: str


def _google(endpoint: str) -> dict[str, str]:
    extra = {"is_anonymous": True, "gcs.endpoint": endpoint}
    return {"AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "google_cloud_platform", "extra": extra})}


def _azure(endpoint: str) -> dict[str, str]:
    extra = {"connection_string": connection_string(endpoint)}
    return {"AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "wasb", "extra": extra})}


EXTRAS = [
    Extra("s3", "s3", s3_server, lambda endpoint: s3_connection("lake", endpoint), f"s3://{BUCKET}/"),
    Extra("gcs", "gs", gcs_server, _google, f"gs://{BUCKET}/"),
    Extra("azure", "abfs", azure_server, _azure, f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net/"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # By way of the source distribution: straight from here, what earlier builds have left in `build/` would be in it.
    _run([*UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT)])
    return next(folder.glob("*.whl"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The test's own, without what is large when it is over: pytest keeps the folders of the last runs."""
    yield tmp_path
    shutil.rmtree(tmp_path / "venv", ignore_errors=True)


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra.name)
def test_an_extra_of_the_wheel_brings_all_that_its_store_needs(extra: Extra, wheel: Path, folder: Path) -> None:
    python = _environment_with(f"{wheel}[{extra.name}]", folder)
    server = extra.server()
    of_the_airflow = {
        **settings_for(folder / "airflow", folder / "airflow/dags"),
        "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": f"{extra.scheme}://lake@{BUCKET}/{folder.name}",
        **extra.connection(server.endpoint),
    }
    nothing_else = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    script = str(Path(__file__).with_name("use_store.py"))
    printed = _run([str(python), "-I", script], cwd=folder, env={**nothing_else, **of_the_airflow})
    came = json.loads(printed.splitlines()[-1])

    assert Path(came.pop("package")).is_relative_to(folder), "the wheel's, and not this checkout's"
    missing = came.pop("missing")
    assert came == {
        "driver_uri": f"{extra.driver_uri}{folder.name}",
        "created": True,
        "created again": False,
        "read": "one",
        "listed": ["1.json"],
        "read by another": "one",
        "deleted": None,
        "left": [],
    }
    for other in EXTRAS:
        if other is not extra:
            assert f"pip install 'airflow-kafka-offsets[{other.name}]'" in missing[f"{other.scheme}://bucket/x"]


def test_the_extra_schemaregistry_brings_what_asks_a_registry(wheel: Path, folder: Path) -> None:
    python = _environment_with(f"{wheel}[schemaregistry]", folder)
    (folder / "ask.py").write_text(
        "from airflow_kafka_offsets.broker.schema_registry import subject_schemas\n"
        "from airflow_kafka_offsets.errors import RegistryUnavailable\n"
        "try:\n"
        f"    subject_schemas({{'url': 'http://127.0.0.1:{free_ports(1)[0]}'}}, ['orders-value'])\n"
        "except RegistryUnavailable as nobody_listens:\n"
        "    print(nobody_listens)\n"
    )
    assert "Connection refused" in _run([str(python), "-I", str(folder / "ask.py")], cwd=folder)


def _environment_with(requirement: str, folder: Path) -> Path:
    """A Python that has it, with the Airflow that the project is tested with. The other packages are the newest that
    fit, because Google's provider does not go with all that the project's own environment pins.
    """
    pins = re.findall(r"^apache-airflow\S*==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins))
    _run([*UV, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")])
    python = folder / "venv/bin/python"
    _run([*UV, "pip", "install", "--quiet", "--python", str(python), "-c", str(constraints), requirement])
    return python


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
