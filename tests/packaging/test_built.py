"""What ``pip install airflow-kafka-offsets`` gets: what is in the wheel and the source, what they say of themselves.

An Airflow that is there already keeps each of its pins.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import DOCS_URL

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "airflow_kafka_offsets"
UV = [sys.executable, "-m", "uv"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both. The wheel is made from the source distribution, as an index's users make it."""
    folder = tmp_path_factory.mktemp("dist")
    run(*UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    ours = run("git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", PACKAGE).splitlines()
    assert names == set(ours)


def test_the_wheel_is_for_every_machine(built: Path, wheel: zipfile.ZipFile) -> None:
    assert next(built.glob("*.whl")).name.endswith("-py3-none-any.whl")
    entry_points = wheel.read(next(name for name in wheel.namelist() if name.endswith("/entry_points.txt"))).decode()
    assert f"provider_info = {PACKAGE}.provider_info:get_provider_info" in entry_points
    assert f"kafka-offsets = {PACKAGE}.cli.main:main" in entry_points


def test_the_licence_is_an_expression_and_its_text_is_there(wheel: zipfile.ZipFile, metadata: Message) -> None:
    """PEP 639: an SPDX expression and files; the classifiers of old, which would say it twice, are refused with it."""
    assert tuple(map(int, str(metadata["Metadata-Version"]).split("."))) >= (2, 4)
    assert (metadata["License-Expression"], metadata["License"]) == ("Apache-2.0", None)
    assert metadata.get_all("License-File") == ["LICENSE"]
    (text,) = [name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
    assert wheel.read(text) == (ROOT / "LICENSE").read_bytes()
    assert not [one for one in metadata.get_all("Classifier", []) if one.startswith("License ::")]


def test_the_metadata_says_what_it_is_and_names_the_one_address_or_none(metadata: Message) -> None:
    """As long as nobody knows where the project will be on the web: an address that is made up is worse than none."""
    assert metadata["Name"] == "airflow-kafka-offsets"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# ")
    assert {"Framework :: Apache Airflow :: Provider", "Typing :: Typed"} <= set(metadata.get_all("Classifier", []))
    assert metadata.get_all("Project-URL") == (DOCS_URL and [f"Documentation, {DOCS_URL}/"])
    assert metadata["Home-page"] is None


def test_the_source_has_what_builds_the_wheel_and_none_of_the_test_s_leftovers(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", f"{PACKAGE}/py.typed"} <= names
    shipped = ("benchmarks", "dags", "docs", "ops", "testbed", "tests")
    files = [path for folder in shipped for path in (ROOT / folder).rglob("*.*") if path.is_file()]
    left_out = {"node_modules", "__pycache__"}
    assert {str(path.relative_to(ROOT)) for path in files if not left_out & set(path.parts)} - names == set()
    first = {name.partition("/")[0] for name in names if name}
    assert first <= {
        *(PACKAGE, f"{PACKAGE}.egg-info", "LICENSE", "README.md", "PKG-INFO", "pyproject.toml", "setup.cfg", *shipped),
        *("CHANGELOG.md", "SECURITY.md", "MANIFEST.in", "Makefile", "mkdocs.yml", "requirements.lock"),
    }
    assert not [name for name in names if "node_modules" in name]
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


@pytest.fixture
def python(tmp_path: Path) -> Iterator[Path]:
    run(*UV, "venv", "--quiet", "--seed", "--python", sys.executable, str(tmp_path / "venv"))
    yield tmp_path / "venv/bin/python"
    shutil.rmtree(tmp_path / "venv")  # some hundred MB


def test_an_airflow_that_is_there_keeps_each_of_its_pins(built: Path, python: Path, tmp_path: Path) -> None:
    """Airflow's constraints file is on the web. The project's own pins, which are a resolution of that Airflow and its
    providers, stand in for it here. The Spark provider is there, too: where it is not, pip gets the newest
    ``grpcio-status`` for it, which wants a ``grpcio`` as new.
    """
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([\w.-]+)(?:\[\S*\])?(==[^\\\n]*)", lock, re.MULTILINE)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join(f"{name}{version}" for name, version in pins))
    providers = [
        f"apache-airflow-providers-{name}" for name in ("standard", "apache-kafka", "apache-spark", "common-compat")
    ]
    run(*UV, "pip", "install", "--quiet", "--python", str(python), "-c", str(constraints), "apache-airflow", *providers)
    before = installed(python)
    wheel = str(next(built.glob("*.whl")))
    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)  # no constraints
    after = installed(python)
    assert {name: after.get(name) for name in before} == before
    assert "airflow-kafka-offsets" in after.keys() - before.keys()
    run(str(python), "-m", "pip", "check")
    run(str(python.with_name("kafka-offsets")), "--version")


def installed(python: Path) -> dict[str, str]:
    lines = run(*UV, "pip", "freeze", "--python", str(python)).splitlines()
    return dict(line.replace(" @ ", "==").split("==", 1) for line in lines)  # type: ignore[arg-type,return-value]


def run(*command: str) -> str:
    of_the_machine = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it has this checkout
    done = subprocess.run(command, capture_output=True, text=True, env=of_the_machine, cwd=tempfile.gettempdir())
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
