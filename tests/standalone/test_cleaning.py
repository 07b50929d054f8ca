"""The DAG of docs/clean-up.md as it is printed, on a real scheduler; the store's connection is in the database."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.postgres import Postgres
from testbed.s3_server import KEY, SECRET
from testbed.standalone import StandaloneAirflow
from tests.docs.pages import DOCS, blocks_of
from tests.stores.kinds import BUCKET, s3_server


def test_the_page_s_task_cleans_a_store_whose_connection_is_in_the_database(postgres: Postgres, tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (block,) = (block for block in blocks_of(DOCS / "clean-up.md") if block.language == "python")
    (dags / "clean.py").write_text(block.code)
    environment = {"AIRFLOW__KAFKA_OFFSETS__WORK_STORE": f"s3://lake@{BUCKET}/cleaned"}
    extra = json.dumps({"endpoint_url": s3_server().endpoint, "region_name": "us-east-1"})
    with StandaloneAirflow(tmp_path / "airflow", [dags], postgres.new_database(), environment) as airflow:
        airflow.wait_for_dag("clean_kafka_offsets")
        airflow.set_connection("lake", conn_type="aws", login=KEY, password=SECRET, extra=extra)
        run = airflow.trigger("clean_kafka_offsets")
        state = airflow.wait_for_run("clean_kafka_offsets", run)
        said = airflow.task_log("clean_kafka_offsets", run, "clean")
    assert state == "success", said
    assert f"were removed from s3://lake@{BUCKET}/cleaned" in said
