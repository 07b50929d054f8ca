"""Two venvs for a row, as a user has them: Airflow's with the built wheel, and the Spark driver's with PySpark.

They stay in `.matrix/`, and are made anew only where what is to be in them has changed. uv links the files from its
cache, so that a further venv costs no space.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from testbed.cache import Say, silent
from tests.matrix.kerberos_client import build_with_kerberos
from tests.matrix.rows import LATEST, Row

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".matrix"
UV = [sys.executable, "-m", "uv", "--quiet"]
# Run in Airflow's venv: versions of what the table shows, and where the package lies.
_LOOK = """
import importlib.metadata, json, sys, airflow_kafka_offsets
provider = "apache-airflow-providers-apache-"
names = ("apache-airflow", provider + "kafka", provider + "spark", "confluent-kafka")
print(json.dumps([airflow_kafka_offsets.__file__, *map(importlib.metadata.version, names)]))
"""


class PythonMissing(RuntimeError):
    """This machine has no interpreter of that version."""


def find_python(version: str) -> str:
    """An interpreter such as 3.12: `python3.12` on the PATH, or one of pyenv's.

    :raises PythonMissing: there is none.
    """
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    of_pyenv = sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python{version}"))
    for found in filter(None, [shutil.which(f"python{version}"), *reversed(of_pyenv)]):
        asked = [found, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
            return found
    raise PythonMissing(
        f"There is no Python {version} here: put a python{version} on the PATH, or install it with pyenv."
    )


def build_wheel(folder: Path) -> Path:
    # By way of the source distribution: straight from here, what earlier builds have left in `build/` would be in it.
    _run([*UV, "build", "--out-dir", str(folder), str(ROOT)])
    return next(folder.glob("*.whl"))


def airflow_python(row: Row, wheel: Path, say: Say = silent) -> Path:
    """The interpreter of the row's Airflow."""
    python = find_python(row.python)
    command = [*UV, "pip", "compile", "pyproject.toml", "--group", "postgres", "--python", python]
    command += ["--exclude-newer", row.as_of, "--no-header", "--no-annotate", "--resolution", row.resolution]
    constraint = f"apache-airflow=={row.airflow}" if row.airflow else ""
    given = subprocess.run(
        [*command, "--constraints", "/dev/stdin"],
        input=constraint,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if given.returncode:
        raise RuntimeError(f"The resolver has no answer for row {row.name}:\n{given.stderr[-3000:]}")
    own = _venv(f"airflow-{row.name}", python, given.stdout, wheel)
    if row.kerberos:
        build_with_kerberos(own, say)
    return own


def spark_python(row: Row, wheel: Path) -> Path:
    """The interpreter of the row's Spark, which needs nothing but PySpark and this package."""
    python = find_python(row.python)
    return _venv(f"spark-{row.spark}-{row.python}", python, f"pyspark=={row.spark}\n", wheel)


def installed(python: Path) -> dict[str, str]:
    """What the table shows of an environment.

    :raises RuntimeError: the package there is not the wheel's.
    """
    said = _run([str(python), "-I", "-c", _LOOK], env={**os.environ, "AIRFLOW_HOME": str(FOLDER / "home")})
    package, airflow, kafka, spark, client = json.loads(said.splitlines()[-1])
    if not Path(package).is_relative_to(python.parents[1]):
        raise RuntimeError(f"{python} has the package of {package}, and not the wheel's")
    return {"Airflow": airflow, "Kafka provider": kafka, "Spark provider": spark, "confluent-kafka": client}


def _venv(name: str, python: str, requirements: str, wheel: Path) -> Path:
    folder = FOLDER / name
    stamp, own = folder / ".requirements", folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != f"{python}\n{requirements}":
        file = FOLDER / f"{name}.txt"
        FOLDER.mkdir(exist_ok=True)
        file.write_text(requirements)
        _run([*UV, "venv", "--clear", "--python", python, str(folder)])
        _run([*UV, "pip", "install", "--exclude-newer", LATEST, "--python", str(own), "-r", str(file)])
        stamp.write_text(f"{python}\n{requirements}")
    _run([*UV, "pip", "install", "--reinstall", "--no-deps", "--python", str(own), str(wheel)])
    return own


def _run(command: list[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout
