"""The machines of this folder's tests, started once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.stores.open import open_store
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.celery_airflow import CeleryAirflow, celery_packages
from testbed.java import Java
from testbed.postgres import Postgres
from testbed.redis_server import RedisServer
from testbed.s3_server import S3Server
from testbed.spark import SHORT_JOBS, s3a_conf, spark_conf, spark_env
from testbed.spark_cluster import QUICK, SparkCluster, Worker
from tests.machines import page
from tests.machines.site import HOUR, LAST, START, Site

ROOT = Path(__file__).resolve().parents[2]
DAGS = Path(__file__).resolve().parent / "dags"
BUCKET = "machines"
OTHER_USERS = ("daemon", "nobody")
# A worker for one queue, which has neither the executor's name nor the work store from anybody.
BARE = {"AIRFLOW__CORE__EXECUTOR": None, "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": None}


@pytest.fixture(scope="session")
def machines(
    broker: KafkaBroker,
    java: Java,
    spark_jars: list[Path],
    s3a_jars: list[Path],
    postgres: Postgres,
    say: Say,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("machines")
    with (
        RedisServer(page.redis_options(), say) as redis,
        S3Server(say) as s3,
        SparkCluster(java, python_path=ROOT, workers=[Worker(user=user) for user in OTHER_USERS]) as spark,
    ):
        s3.create_bucket(BUCKET)
        database = postgres.new_database()
        settings = page.settings(
            {
                "http://airflow.example.com:8080": "the api-server that the testbed starts",
                "postgresql+psycopg2://airflow:password@postgres.example.com:5432/airflow": database,
                "postgresql://airflow:password@postgres.example.com:5432/airflow": database,
                "redis.example.com:6379": f"127.0.0.1:{redis.port}",
                "kafka.example.com:9092": broker.bootstrap_servers,
                "spark://spark.example.com:7077": spark.client_master,
                "my-bucket": BUCKET,
            }
        )
        del settings["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"]
        lake = airflow_home.s3_connection("lake", s3.endpoint)["AIRFLOW_CONN_LAKE"]
        settings["AIRFLOW_CONN_LAKE"] = page.merged(settings["AIRFLOW_CONN_LAKE"], lake)
        conf = {
            **spark_conf([*spark_jars, *s3a_jars]),
            **s3a_conf(s3.endpoint),
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "1",
            # Both workers have one address here. Spark would open the other's files itself, and is another user there.
            "spark.shuffle.readHostLocalDisk": "false",
        }
        environment = {
            **settings,
            **spark_env(java),
            **SHORT_JOBS,
            **airflow_home.spark_defaults(folder / "spark", conf),
            "AIRFLOW__CORE__EXECUTOR": f"{settings['AIRFLOW__CORE__EXECUTOR']},LocalExecutor",  # for one test's task
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "5",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(celery_packages(say))]),
            "MACHINES_START": START.isoformat(),
            "MACHINES_END": (LAST - HOUR).isoformat(),  # where the last interval begins
            "MACHINES_BUCKET": BUCKET,
        }
        commands = page.airflow_commands()
        bare = ["celery", "worker", "--celery-hostname", "bare", "--concurrency", "1", "--queues", "bare"]
        airflow = CeleryAirflow(
            folder / "airflow",
            [DAGS],
            database,
            environment,
            commands={**commands, "bare": bare},
            own_settings={"bare": BARE},
        )
        with pytest.MonkeyPatch.context() as patch, airflow:
            for name, value in s3.environment.items():
                patch.setenv(name, value)
            airflow.wait_for_dag("hourly")
            store = open_store(settings["AIRFLOW__KAFKA_OFFSETS__WORK_STORE"].replace("lake@", ""))
            yield Site(airflow, broker, redis, spark, store, BUCKET)
