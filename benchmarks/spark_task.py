"""Where the time of the Spark task goes, beside a bare one's: ``python -m benchmarks.spark_task``.

Both read the same records of one topic into Parquet files, each by a ``spark-submit`` of its own, in turns. Both JVMs
start from the archive of classes, so that what is left is the work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from airflow_kafka_offsets.hooks.driver_archive import driver_archive, make
from airflow_kafka_offsets.hooks.spark_installation import find_spark
from benchmarks.measured import say, spread, title
from benchmarks.ours import Ours
from testbed.broker import KafkaBroker
from testbed.jars import spark_jars
from testbed.java import find_java
from testbed.spark import spark_conf, spark_env

JOB = Path(__file__).parent / "jobs" / "timed_parts.py"
TOPIC, PARTITIONS = "t0", 2  # a name that Ours finds
PARTS = (
    "until Python runs",
    "imports",
    "session",
    "plan",
    "source, looks at Kafka, attempt",
    "write",
    "count and report",
    "stop",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=100_000)
    options = parser.parse_args()
    java = find_java(say)
    os.environ.update(spark_env(java), PYTHONPATH=str(JOB.parents[2]))
    command = [*_submit(), *_settings({**spark_conf(spark_jars(java)), "spark.master": "local[1]"}), str(JOB)]
    found: dict[str, list[dict[str, float]]] = {"bare": [], "ours": []}
    with tempfile.TemporaryDirectory(prefix="bench-spark-task-") as name, KafkaBroker(java=java) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        broker.produce_many(TOPIC, options.records, partitions=PARTITIONS)
        servers, folder = broker.bootstrap_servers, Path(name)
        ours = Ours(servers)
        for number in range(options.rounds + 1):
            say("to warm up" if number == 0 else f"round {number} of {options.rounds}")
            batch = ours.arguments("bench", folder / "store")
            for side, words in (("bare", ["bare", servers, TOPIC]), ("ours", batch)):
                parts = _run([*command, str(time.time()), str(folder / f"{side}-{number}"), *words])
                if number:
                    found[side].append(parts)
        ours.cluster.close()
    print(title("Where the time of a Spark task goes", "pyspark"))
    print(f"{options.records:,} records; medians in seconds by the driver's own clock, and quartiles of the whole.\n")
    print("| part | bare | this package |\n|---|---:|---:|")
    for part in PARTS:
        print(f"| {part} | {' | '.join(_cell([run.get(part) for run in runs]) for runs in found.values())} |")
    wholes = [[sum(run.values()) for run in runs] for runs in found.values()]
    cells = (f"{statistics.median(whole):.2f} ({' to '.join(f'{s:.2f}' for s in spread(whole))})" for whole in wholes)
    print(f"| together | {' | '.join(cells)} |")
    return 0


def _submit() -> list[str]:
    """``spark-submit`` with the archive of classes, which is made where it is not there yet."""
    archive = driver_archive(find_spark("spark-submit", os.environ), os.environ, {}, None)
    if archive is None or archive.spark.home is None:
        raise RuntimeError("this Java can have no archive of classes")
    if not archive.options():
        say("making the archive of classes")
        make(archive.file, archive.java_home, archive.spark.submit, archive.spark.home, archive.class_path)
    os.environ["SPARK_SUBMIT_OPTS"] = archive.options()
    return [str(archive.spark.submit), "--driver-class-path", archive.class_path]


def _settings(conf: dict[str, str]) -> list[str]:
    return [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]


def _run(command: Sequence[str]) -> dict[str, float]:
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (line,) = (line for line in said.splitlines() if line.startswith("PARTS "))
    parts: dict[str, float] = json.loads(line.removeprefix("PARTS "))
    return parts


def _cell(seconds: Sequence[float | None]) -> str:
    known = [one for one in seconds if one is not None]
    return f"{statistics.median(known):.2f}" if known else ""


if __name__ == "__main__":
    sys.exit(main())
