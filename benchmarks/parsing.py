"""What a `kafka_spark_batch` costs whoever parses its DAG file, over Airflow itself: `python -m benchmarks.parsing`.

Each time is taken in a process of its own that has imported Airflow and built a DAG before. Processor time is what
counts: the clock also counts what else the machine does. The modules are compiled once before, as an installed
package's are.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measured import say, spread, title

LIMIT_MS = 100
ROUNDS = 9
# Airflow's DAG processor has loaded the plugins before it parses, of which one is OpenLineage's.
_AIRFLOW = """
import json, time
import airflow.providers.openlineage.plugins.listener
from airflow.sdk import DAG
with DAG("empty", schedule=None):
    pass
"""
_SPARK = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
with DAG("spark", schedule=None):
    SparkSubmitOperator(task_id="spark", application="/job.py")
"""
_BATCH = """
from airflow_kafka_offsets import kafka_spark_batch
with DAG("batch", schedule=None):
    kafka_spark_batch("orders", topics="orders", group_id="g", sink={"format": "parquet", "path": "/lake/orders"})
"""
SPARK, BATCH, AFTER_SPARK, NEXT = (
    "SparkSubmitOperator alone",
    "kafka_spark_batch",
    "kafka_spark_batch, where SparkSubmitOperator is imported already",
    "one more kafka_spark_batch",
)
# What is done before, and what is timed.
_CASES = {SPARK: ("", _SPARK), BATCH: ("", _BATCH), AFTER_SPARK: (_SPARK, _BATCH), NEXT: (_BATCH, _BATCH)}
_OWNERS = {
    "this package": r"airflow_kafka_offsets",
    "confluent_kafka and Kafka's provider": r"confluent_kafka|airflow\.providers\.apache\.kafka",
    "Spark's provider, with requests": r"airflow\.providers\.apache\.spark|requests|urllib3|charset_normalizer|brotli",
}


class Parsing:
    """Processes whose compiled modules lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        root = str(Path(__file__).resolve().parents[1])
        self._env |= {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "AIRFLOW_HOME": str(folder), "PYTHONPATH": root}
        self.ms(BATCH)  # compiles

    def ms(self, case: str) -> tuple[float, float]:
        """Processor's and clock's milliseconds."""
        cpu, clock = json.loads(self._run(case).stdout.splitlines()[-1])
        return cpu, clock

    def owners(self) -> dict[str, float]:
        """Whose modules the time goes to, in parts of one."""
        imported = self._run(BATCH, "-X", "importtime").stderr.partition("from here on")[2]
        times: Counter[str] = Counter()
        for own_us, name in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", imported):
            times[next((who for who, pattern in _OWNERS.items() if re.match(pattern, name)), "others")] += int(own_us)
        return {who: time / times.total() for who, time in times.most_common()}

    def _run(self, case: str, *options: str) -> subprocess.CompletedProcess[str]:
        before, timed = _CASES[case]
        code = f"""{_AIRFLOW}{before}
import sys
print("from here on", file=sys.stderr, flush=True)
clock, cpu = time.perf_counter(), time.process_time()
{timed}
print(json.dumps([(time.process_time() - cpu) * 1000, (time.perf_counter() - clock) * 1000]))
"""
        command = [sys.executable, *options, "-c", code]
        return subprocess.run(command, env=self._env, check=True, capture_output=True, text=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-parsing-") as folder:
        parsing = Parsing(Path(folder))
        times: dict[str, list[tuple[float, float]]] = {case: [] for case in _CASES}
        for number in range(ROUNDS):
            say(f"round {number + 1} of {ROUNDS}")
            for case in _CASES:
                times[case].append(parsing.ms(case))
        owners = parsing.owners()
    print(title("Parsing a DAG file, over importing Airflow", "apache-airflow"))
    print("\n".join(_page(times, owners)))


def _page(times: dict[str, list[tuple[float, float]]], owners: dict[str, float]) -> Iterator[str]:
    yield "| a DAG file with | processor, ms | quartiles | clock, ms | quartiles |"
    yield "|---|---:|---:|---:|---:|"
    for case, found in times.items():
        cells = []
        for values in zip(*found, strict=True):
            low, high = spread(values)
            cells += [f"{statistics.median(values):.0f}", f"{low:.0f} to {high:.0f}"]
        yield f"| {case} | {' | '.join(cells)} |"
    yield ""
    yield "Of `kafka_spark_batch`: " + ", ".join(f"{who} {part:.0%}" for who, part in owners.items()) + "."
    yield ""
    cpu = statistics.median(cpu for cpu, _ in times[BATCH])
    holds = "holds" if cpu <= LIMIT_MS else "DOES NOT HOLD"
    yield f"At most {LIMIT_MS} ms over importing Airflow: {cpu:.0f} ms, {holds}."


if __name__ == "__main__":
    main()
