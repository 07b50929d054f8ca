"""A quiet, headless Airflow with a home of its own: the demo's and the tests'.

Airflow reads its settings when it is first imported, so `settings_for` goes into the environment before that.
"""

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FAB_LOGIN = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"  # users with rights of each DAG


def settings_for(home: Path, dags_folder: Path) -> dict[str, str]:
    """Environment variables of an Airflow in `home` that knows the DAGs in `dags_folder` and nothing else."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(96),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "NO_COLOR": "1",
    }


def connections(kafka: Mapping[str, object], spark_master: str = "local[2]") -> dict[str, str]:
    """`kafka_default` and `spark_default` as environment variables."""
    return {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": json.dumps(dict(kafka))}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": spark_master}),
    }


def variables(values: Mapping[str, str]) -> dict[str, str]:
    """Airflow variables as environment variables."""
    return {f"AIRFLOW_VAR_{name.upper()}": value for name, value in values.items()}


def migrate(env: Mapping[str, str], python: str = sys.executable) -> None:
    """Make the metadata database of the Airflow that `python` has; about five seconds.

    :raises RuntimeError: with what Airflow said.
    """
    command = [python, "-m", "airflow", "db", "migrate"]
    # From its own folder: `-m` takes packages of the current one before those that are installed.
    own = Path(env["AIRFLOW_HOME"])
    own.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(command, env={**os.environ, **env}, cwd=own, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"`airflow db migrate` failed:\n{(result.stdout + result.stderr)[-4000:]}")


def spark_defaults(folder: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """A `spark-defaults.conf` in `folder`, for every `spark-submit` of a process with these variables."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {"spark.master"}  # the Airflow connection names the master
    lines = [f"{key} {value}" for key, value in conf.items() if key not in own]
    (folder / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    return {"SPARK_CONF_DIR": str(folder)}
