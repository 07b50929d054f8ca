"""`make soak`: scheduled runs on a secured Kafka and S3 with random faults, for twenty minutes; then it is counted.

`SOAK_MINUTES` says how long, `SOAK_SEED` which faults.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.cache import Say
from testbed.checks import committed_offsets, duplicated_or_missing
from testbed.java import Java
from testbed.postgres import Postgres
from testbed.secured_broker import SecuredBroker
from testbed.spark import s3a_conf, spark_conf
from testbed.standalone import StandaloneAirflow
from tests.soak.faults import DAG_ID, Faults
from tests.soak.producer import Steady
from tests.soak.usage import Usage
from tests.stores.kinds import BUCKET, s3_server

ROOT = Path(__file__).resolve().parents[2]
MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
SEED = int(os.environ.get("SOAK_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
PARTITIONS, EACH = 3, 30
BETWEEN_S = (15.0, 45.0)
SAMPLE_S = 5.0
END_S = 900.0
TOPIC, GROUP = "soak", "soak-to-lake"
PASSWORDS = {"airflow": "soak-airflow", "spark": "soak-spark"}


def test_after_a_soak_the_output_is_exact_and_nothing_has_grown(
    java: Java,
    say: Say,
    spark_jars: list[Path],
    s3a_jars: list[Path],
    spark_environment: Mapping[str, str],
    postgres: Postgres,
    tmp_path: Path,
) -> None:
    server, over = s3_server(), tmp_path / "over"
    folder = f"{BUCKET}/soak-{SEED}-{os.getpid()}"
    output = f"s3a://{folder}/orders"
    settings = spark_conf([*spark_jars, *s3a_jars]) | s3a_conf(server.endpoint)
    environment = {
        **spark_environment,
        **airflow_home.spark_defaults(tmp_path / "spark", settings),
        **airflow_home.s3_connection("lake", server.endpoint),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": f"s3://lake@{folder}/store",
        "SOAK_OVER": str(over),
        "SOAK_TOPIC": TOPIC,
        "SOAK_GROUP": GROUP,
        "SOAK_OUTPUT": output,
    }
    with SecuredBroker(tmp_path / "kafka", PASSWORDS, java, say) as kafka:
        kafka.plain.create_topic(TOPIC, PARTITIONS)
        kafka.allow("airflow", ("topic", TOPIC, "read"), ("group", GROUP, "read"))
        kafka.allow("spark", ("topic", TOPIC, "read"))
        airflow_of = {
            "kafka_default": kafka.connection("scram", "airflow"),
            "kafka_spark": kafka.connection("mtls", "spark"),
        }
        for name, extra in airflow_of.items():
            value = {"conn_type": "kafka", "extra": json.dumps(extra)}
            environment[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(value)
        environment["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "local[2]"})
        home = tmp_path / "airflow"
        dags, database = [ROOT / "tests/soak/dags"], postgres.new_database()
        with StandaloneAirflow(home, dags, database, environment, triggerer=True) as airflow:
            airflow.wait_for_dag(DAG_ID)
            faults, usage = Faults(airflow, kafka, server.pid, random.Random(SEED)), Usage()
            with Steady(kafka.plain.client_config, TOPIC, PARTITIONS, EACH) as steady:
                airflow.pause(DAG_ID, paused=False)
                _wait_in_the_triggerer(airflow)
                _soak(airflow, faults, usage, steady)
            over.touch()
            produced = steady.produced
            ends = {partition: end for partition, (_, end) in kafka.plain.offset_bounds(TOPIC).items()}
            assert sum(ends.values()) == produced
            airflow.wait_until("no run is scheduled any more", lambda: not airflow.is_scheduled(DAG_ID))
            _read_the_rest(airflow, lambda: committed_offsets(kafka.plain, GROUP, TOPIC) == ends)
            runs = list(airflow.runs(DAG_ID).values())
        _say(f"{len(runs)} runs, {produced} records; faults: {dict(faults.done)}")
        for part, pid, before, after in usage.table(least=_samples() // 2):
            _say(f"{part} {pid}: {before} → {after}")
        assert duplicated_or_missing(output, produced) == (0, 0), "records missing, rows too many"
        assert committed_offsets(kafka.plain, GROUP, TOPIC) == ends
        assert faults.kinds == 8 or MINUTES < 10, "each kind of fault was done"
        parts = {part for part, *_ in usage.table(least=_samples() // 2)}
        assert {"triggerer", "scheduler", "worker of scheduler", "dag-processor", "api-server"} <= parts
        assert usage.growing(least=_samples() // 2) == []


def _wait_in_the_triggerer(airflow: StandaloneAirflow) -> None:
    """Two runs at once: the first trigger loads the client libraries, which is no growth of what is measured next."""
    runs = [airflow.trigger(DAG_ID) for _ in range(2)]
    airflow.wait_until(
        "one run waits for the other in the triggerer",
        lambda: any(task.state == "deferred" for run in runs for task in airflow.tasks(DAG_ID, run)),
    )


def _soak(airflow: StandaloneAirflow, faults: Faults, usage: Usage, steady: Steady) -> None:
    begun = time.monotonic()
    end, strike, sample, told = begun + 60 * MINUTES, begun + 60.0, begun, begun
    while (now := time.monotonic()) < end:
        if now >= strike:
            _say(faults.strike())
            strike = time.monotonic() + faults.draw.uniform(*BETWEEN_S)
        if now >= sample:
            usage.look(airflow.pids)
            sample = now + SAMPLE_S
        if now >= told + 60:
            counts = _counted(airflow.runs(DAG_ID))
            _say(f"minute {(now - begun) / 60:.0f} of {MINUTES:.0f}: {steady.produced} records, runs {counts}")
            told = now
        faults.over.wait(0.5)


def _read_the_rest(airflow: StandaloneAirflow, is_all_committed: Callable[[], bool]) -> None:
    """Runs until all that there are have ended, and the last has read everything."""
    end, told = time.monotonic() + END_S, 0.0
    while True:
        states = airflow.runs(DAG_ID)
        if time.monotonic() >= told + 60:
            _say(f"the rest is read; runs {_counted(states)}")
            told = time.monotonic()
        if not {"queued", "running"} & set(states.values()):
            if is_all_committed():
                return
            _say(f"one more run: {airflow.trigger(DAG_ID)}")
        if time.monotonic() > end:
            pytest.fail(f"after {END_S:.0f} s there is still something to read; runs: {states}")
        time.sleep(1.0)


def _counted(runs: Mapping[str, str]) -> dict[str, int]:
    return dict(Counter(sorted(runs.values())))


def _samples() -> int:
    return int(60 * MINUTES / SAMPLE_S / 2)


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} seed {SEED}: {line}", flush=True)
