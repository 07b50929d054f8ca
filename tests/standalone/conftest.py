"""The Airflow of this folder's tests; each file starts its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.postgres import Postgres
from testbed.standalone import StandaloneAirflow
from tests.standalone.site import DAY, START, Site

ROOT = Path(__file__).resolve().parents[2]
DAGS = Path(__file__).resolve().parent / "dags"
SECRET = "hunter2-password"


@pytest.fixture(scope="module")
def site(broker: KafkaBroker, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("standalone")
    output = folder / "output"
    environment = {
        **airflow_home.connections({**broker.client_config, "sasl.password": SECRET}),
        "PYTHONPATH": str(ROOT),
        "BY_TIME_START": START.isoformat(),
        "BY_TIME_DAY": DAY.isoformat(),
        "BY_TIME_OUTPUT": str(output),
    }
    with StandaloneAirflow(folder / "airflow", [DAGS], postgres.new_database(), environment, triggerer=True) as airflow:
        airflow.wait_for_dag("waits_in_the_triggerer")
        yield Site(airflow, broker, output, folder / "airflow" / "kafka_offsets")
