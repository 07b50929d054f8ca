"""What Airflow sees of the installed package."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile


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


def test_no_import_of_the_package_or_its_provider_info_imports_airflow() -> None:
    code = (
        "import sys, airflow_kafka_offsets, airflow_kafka_offsets.provider_info as p; p.get_provider_info();"
        "sys.exit(any(name.partition('.')[0] in ('airflow', 'confluent_kafka', 'pyspark') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there(airflow: Path) -> None:
    import airflow_kafka_offsets

    for name in airflow_kafka_offsets.__all__:
        assert getattr(airflow_kafka_offsets, name) is not None


def test_the_wheel_holds_the_package_its_entry_points_and_nothing_of_the_tests(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(root)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    with ZipFile(next(tmp_path.glob("airflow_kafka_offsets-*.whl"))) as wheel:
        names = wheel.namelist()
        entry_points = wheel.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert "[apache_airflow_provider]" in entry_points
    assert "airflow_kafka_offsets/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"airflow_kafka_offsets"}
