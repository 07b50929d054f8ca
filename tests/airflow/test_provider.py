"""What Airflow sees of the installed package."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import airflow_kafka_offsets
from airflow_kafka_offsets.provider_info import get_provider_info


def airflow_says(*words: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "airflow", *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def test_airflow_lists_the_provider(airflow: Path) -> None:
    assert "airflow-kafka-offsets" in airflow_says("providers", "list", "--output", "plain")


def test_the_configuration_section_is_known_with_its_default(airflow: Path) -> None:
    assert airflow_says("config", "get-value", "kafka_offsets", "work_store").strip() == ""


def test_a_dag_file_is_parsed_without_the_engine_the_log_and_a_kafka_client() -> None:
    code = (
        "import sys\n"
        "from airflow.sdk import DAG\n"
        "from airflow_kafka_offsets import kafka_spark_batch\n"
        "with DAG('batch', schedule=None):\n"
        "    kafka_spark_batch('orders', topics='orders', group_id='g', sink={'format': 'parquet', 'path': '/lake'})\n"
        "unwanted = ('airflow_kafka_offsets.batch.orders', 'airflow_kafka_offsets.plan.ranges', "
        "'airflow_kafka_offsets.log.', 'airflow_kafka_offsets.broker.schema_registry', 'confluent_kafka')\n"
        "print(*(name for name in sys.modules if name.startswith(unwanted)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == []


def test_no_import_of_the_package_or_its_provider_info_imports_airflow() -> None:
    code = (
        "import sys, airflow_kafka_offsets, airflow_kafka_offsets.provider_info as p; p.get_provider_info();"
        "sys.exit(any(name.partition('.')[0] in ('airflow', 'confluent_kafka', 'pyspark') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there(airflow: Path) -> None:
    for name in airflow_kafka_offsets.__all__:
        assert getattr(airflow_kafka_offsets, name) is not None


def test_what_airflow_is_told_of_is_what_there_is() -> None:
    """Each module that defines an operator, a sensor, a trigger or a hook of its own, and no other."""
    from airflow.models.baseoperator import BaseOperator
    from airflow.sdk import BaseHook
    from airflow.triggers.base import BaseTrigger

    info = get_provider_info()
    for kind in ("operators", "sensors", "triggers", "hooks"):
        folder = Path(airflow_kafka_offsets.__path__[0]) / kind
        found = set()
        for file in folder.glob("[a-z]*.py"):
            module = import_module(f"airflow_kafka_offsets.{kind}.{file.stem}")
            own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
            classes = [value for value in own if inspect.isclass(value) and not inspect.isabstract(value)]
            if any(issubclass(one, BaseOperator | BaseTrigger | BaseHook) for one in classes):
                found.add(module.__name__)
        assert set(info[kind][0]["python-modules"]) == found


def test_the_wheel_holds_the_package_its_entry_points_and_nothing_of_the_tests(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(root)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    with ZipFile(next(tmp_path.glob("airflow_kafka_offsets-*.whl"))) as wheel:
        names = wheel.namelist()
        entry_points = wheel.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert "[apache_airflow_provider]" in entry_points
    assert "[airflow.plugins]" in entry_points
    page = root / "airflow_kafka_offsets/page"
    files = [*(page / "templates").iterdir(), *(page / "static").iterdir()]
    assert {str(file.relative_to(root)) for file in files} <= set(names)
    assert "airflow_kafka_offsets/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"airflow_kafka_offsets"}
