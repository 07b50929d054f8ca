"""A release: what is built installs and answers in a fresh environment, and beside PySpark alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.pages import ROOT, blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.starts_processes]

BIN = Path(sys.executable).parent
PROVIDER = """
from airflow.providers_manager import ProvidersManager
print(ProvidersManager().providers["airflow-kafka-offsets"].version)
"""
PUBLIC = "import airflow_kafka_offsets as a; print(len([getattr(a, name) for name in a.__all__]))"
DRIVER = "import airflow_kafka_offsets.spark as s; print(len([getattr(s, name) for name in s.__all__]))"


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    assert len(list(folder.glob("*.tar.gz"))) == 1
    return wheel


def test_the_page_of_the_package_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    with ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        about = message_from_bytes(files.read(name))
    assert about["Author"]
    assert about["Description-Content-Type"] == "text/markdown"
    assert "kafka_offsets" in str(about.get_payload())
    assert [link for link in re.findall(r"\]\(([^)]+)\)", str(about.get_payload())) if "://" not in link] == []


def environment_with(wheel: Path, folder: Path, *options: str) -> Path:
    """The folder of the programs of a new environment, with the versions that ``requirements.lock`` pins."""
    pins = re.findall(r"^[\w.-]+==[^\\\n]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    (folder / "constraints.txt").write_text("\n".join(pins))
    run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, folder / "venv")
    python = folder / "venv" / "bin" / "python"
    constraints = folder / "constraints.txt"
    run(BIN / "uv", "pip", "install", "--quiet", "--python", python, "--constraint", constraints, *options, wheel)
    return python.parent


def test_the_wheel_installs_and_answers_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    fresh, home = environment_with(wheel, tmp_path), {"AIRFLOW_HOME": str(tmp_path)}
    version = wheel.name.split("-")[1]
    assert version in run(fresh / "kafka-offsets", "--version")
    assert "AKO-101 DataLoss" in run(fresh / "kafka-offsets", "explain", "AKO-101")
    assert (
        run(fresh / "python", "-I", "-c", PUBLIC, **home)
        .strip()
        .endswith(run(sys.executable, "-c", PUBLIC).split()[-1])
    )
    assert run(fresh / "python", "-I", "-c", PROVIDER, **home).split()[-1] == version
    (tmp_path / "readme.py").write_text(next(b.code for b in blocks_of(ROOT / "README.md") if b.language == "python"))
    run(fresh / "python", "-I", tmp_path / "readme.py", **home)


def test_on_a_spark_image_the_wheel_needs_nothing_but_pyspark(wheel: Path, tmp_path: Path) -> None:
    fresh = environment_with(wheel, tmp_path, "--no-deps")
    packages = Path(run(fresh / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in ("pyspark", "py4j"):  # as an image has them
        (packages / name).symlink_to(Path(str(distribution(name).locate_file(name))))
    assert int(run(fresh / "python", "-I", "-c", DRIVER)) >= 4
