"""`read_batch` + sink + report against a plain read of Spark's Kafka source, the same ranges into the same sink.

``make bench-read`` starts a broker, fills two topics, and runs both sides in turn in one Spark session: 10 million
records of 200 bytes in 100 partitions (``large``), and 1,000 partitions with ten records each (``many``); the plain
side as it is, and with the settings for fetches that `read_batch` sets without being asked (``-short``, a star in the
table), which is the fair row: it alone has a limit. `measure` gives the rows of the table.

Both sides write with `spark.sinks.files`. A round is one run of each side, and the next round begins with the other
one. The ratio is the median of the rounds' ratios, so that what else the machine does falls on both. It is given by
the clock, and by the processor time of Spark's own process, which other processes disturb less.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from airflow_kafka_offsets.plan.plan_json import spark_options
from airflow_kafka_offsets.spark import read_batch, report_batch
from airflow_kafka_offsets.spark.kafka_source import FETCHES
from airflow_kafka_offsets.spark.sinks import files
from airflow_kafka_offsets.stores.local import LocalStore
from benchmarks.measured import say, title
from testbed.broker import KafkaBroker
from testbed.jars import spark_jars
from testbed.java import find_java
from testbed.spark import spark_conf, spark_env
from tests.spark.conftest import Plans, require_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_offsets.log.pipeline_log import StoredBatch

KEY_BYTES, RECORD_BYTES = 8, 200
CASES = ("large", "large-short", "many", "many-short")
FAST = ("-XX:TieredStopAtLevel=4", "-Xmx1g")  # the testbed's own broker is made for tests of seconds


@dataclass(frozen=True)
class Case:
    """What is read.

    :ivar options: that the plain side's source is given, too: what `read_batch` sets without being asked.
    :ivar limit: the ratio that may not be passed.
    """

    name: str
    records: int
    partitions: int
    options: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None

    @property
    def topic(self) -> str:
        return f"{self.name}-{self.records}-{self.partitions}"


@dataclass
class Run:
    """One run of one side.

    :ivar seconds: by the clock.
    :ivar processor: seconds of processor time of Spark's process.
    :ivar parts: seconds by the clock of what it was made of.
    """

    seconds: float = 0.0
    processor: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + time.perf_counter() - began


@dataclass(frozen=True)
class Row:
    """A line of the table.

    :ivar ratio: median of the rounds' ratios, by the clock; ``processor_ratio`` by Spark's processor time.
    :ivar spread: the smallest and the largest ratio of a round.
    :ivar own_share: what is not the sink, as a part of the sink's time in the same run: what else the machine does
        falls on both, and what the sides are given does not count.
    :ivar parts: where the time of `read_batch` and what follows goes: medians in seconds.
    """

    case: Case
    rounds: int
    plain_s: float
    ours_s: float
    ratio: float
    spread: tuple[float, float]
    processor_ratio: float
    own_share: float
    parts: Mapping[str, float]

    def line(self) -> str:
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.parts.items())
        most = self.case.limit
        limit = "" if most is None else f"{most:.2f}: {'holds' if self.ratio <= most else 'DOES NOT HOLD'}"
        return (
            f"| {self.case.name}{'*' if self.case.options else ''} | {self.case.records:,} | {self.case.partitions:,} "
            f"| {self.rounds} | {self.plain_s:.1f} | {self.ours_s:.1f} | {self.ratio:.2f} "
            f"| {self.spread[0]:.2f} to {self.spread[1]:.2f} | {self.processor_ratio:.2f} | {self.own_share:.1%} "
            f"| {limit} | {parts} |"
        )


COLUMNS = (
    "case", "records", "partitions", "rounds", "plain, s", "`read_batch`, s", "ratio", "least to most", "processor",
    "own part", "limit", "of `read_batch`, s",
)  # fmt: skip
ALIGNED = ("---", *["---:"] * 9, "---", "---")


class Bench:
    """A session, a broker, and where both sides write."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self.plans = Plans(LocalStore(folder / "store"), broker)
        self._jvm = _pid_of_jvm(spark)

    def row(self, case: Case, rounds: int) -> Row:
        fill(self.broker, case)
        self.warm_up()
        plain, ours = [], []
        for number in range(rounds):
            sides = [(self.plain, plain), (self.ours, ours)]
            for side, runs in sides[:: -1 if number % 2 else 1]:
                run = side(case)
                runs.append(run)
                say(f"{case.topic} {side.__name__}: {run.seconds:.2f} s {run.parts}")
        ratios = [mine.seconds / its.seconds for its, mine in zip(plain, ours, strict=True)]
        processor = [mine.processor / its.processor for its, mine in zip(plain, ours, strict=True)]
        return Row(
            case,
            rounds,
            statistics.median(run.seconds for run in plain),
            statistics.median(run.seconds for run in ours),
            statistics.median(ratios),
            (min(ratios), max(ratios)),
            statistics.median(processor),
            statistics.median(run.seconds / run.parts["sink"] - 1 for run in ours),
            {name: statistics.median(run.parts[name] for run in ours) for name in ours[0].parts},
        )

    def warm_up(self) -> None:
        """Both sides once, over little: classes are loaded, and Java has compiled what both need."""
        case = Case("warm", 200_000, 4, 0)
        fill(self.broker, case)
        for side in (self.plain, self.ours):
            side(case)

    def plain(self, case: Case) -> Run:
        planned = self._planned(case)
        options = spark_options(planned.log.plan.partitions)
        with self._run() as run, run.part("sink"):
            reader = self.spark.read.format("kafka").options(**options, **case.options)
            reader = reader.option("kafka.bootstrap.servers", self.broker.bootstrap_servers)
            files(self._output)(reader.load(), _OnlyAKey(planned.log.plan.batch.key))
        return run

    def ours(self, case: Case) -> Run:
        planned = self._planned(case)
        with self._run() as run:
            with run.part("plan"):
                job = self.plans.job(planned)
            with run.part("begin"):
                records = read_batch(self.spark, job)
            with run.part("sink"):
                written = files(self._output)(records, job)
            with run.part("report"):
                report = report_batch(job, written)
        assert report.proof == "rows"
        assert sum(read.row_count for read in report.partitions.values()) == case.records
        require_read(planned)
        return run

    @property
    def _output(self) -> str:
        return str(self.folder / "output")

    @contextmanager
    def _run(self) -> Iterator[Run]:
        shutil.rmtree(self._output, ignore_errors=True)
        jvm_of(self.spark).java.lang.System.gc()
        os.sync()  # what the run before has written is not this one's to wait for
        run, processor, began = Run(), self._processor_s(), time.perf_counter()
        yield run
        run.seconds, run.processor = time.perf_counter() - began, self._processor_s() - processor

    def _planned(self, case: Case) -> StoredBatch:
        each = case.records // case.partitions
        return self.plans.batch({(case.topic, number): (0, each) for number in range(case.partitions)})

    def _processor_s(self) -> float:
        return processor_s(self._jvm)


@dataclass(frozen=True)
class _OnlyAKey:
    """What the sink has to know of a batch, without a log behind it."""

    key: str
    split: int = 0
    attempt: int = 1

    @property
    def row_filter(self) -> str:
        return f"kafka_batch = '{self.key}' AND kafka_split = {self.split}"

    def look(self) -> None: ...


def fill(broker: KafkaBroker, case: Case) -> None:
    """Write the topic, unless an earlier run on the same data has."""
    each = case.records // case.partitions
    whole = dict.fromkeys(range(case.partitions), (0, each))
    if case.topic in broker.admin().list_topics(timeout=60).topics:
        if broker.offset_bounds(case.topic) == whole:
            return
        broker.delete_topic(case.topic)
    broker.create_topic(case.topic, case.partitions)
    began = time.perf_counter()
    settings = {"linger.ms": 50, "batch.size": 1_000_000, "queue.buffering.max.messages": 2_000_000, "acks": "1"}
    producer = Producer({**broker.client_config, **settings})
    noise = random.Random(1).randbytes(1_000_000)
    size = RECORD_BYTES - KEY_BYTES - 16
    for first in range(0, each, 10_000):
        for partition in range(case.partitions):
            messages = [
                {
                    "key": b"%08d" % n,
                    "value": b"%08d%08d" % (partition, n) + noise[(at := n * 7919 % 900_000) : at + size],
                }
                for n in range(first, min(first + 10_000, each))
            ]
            while messages:
                with suppress(BufferError):
                    producer.produce_batch(case.topic, messages, partition=partition)
                messages = [message for message in messages if message.pop("_error", None) is not None]
                producer.poll(0.5 if messages else 0)
    if producer.flush(300) or broker.offset_bounds(case.topic) != whole:
        raise RuntimeError(f"{case.topic} was not filled")
    say(f"{case.records:,} records written in {time.perf_counter() - began:.0f} s")


@contextmanager
def bench(data: Path | None = None) -> Iterator[Bench]:
    """:param data: the broker's folder, which stays for another run; by default one that is removed."""
    java = find_java(say)
    os.environ.update(spark_env(java))
    from pyspark.sql import SparkSession

    folder = Path(tempfile.mkdtemp(prefix="bench-read-"))
    broker = KafkaBroker(data, jvm=FAST)
    try:
        with broker:
            settings = {**spark_conf(spark_jars(java, say)), "spark.driver.memory": "2g", "spark.log.level": "ERROR"}
            settings["spark.ui.showConsoleProgress"] = "false"
            spark = SparkSession.builder.appName("bench").config(map=settings).getOrCreate()
            try:
                yield Bench(spark, broker, folder)
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(
    records: int = 10_000_000, rounds: int = 3, data: Path | None = None, cases: Sequence[str] = CASES
) -> list[Row]:
    """The table's rows, measured now: minutes.

    :param records: of the large case.
    :param data: the broker's folder, which stays for another run; by default one that is removed.
    """
    asked = {
        "large": (Case("large", records, 100), rounds),
        "large-short": (Case("large", records, 100, FETCHES, limit=1.03), rounds),
        "many": (Case("many", 10_000, 1_000), rounds),
        "many-short": (Case("many", 10_000, 1_000, FETCHES, limit=1.10), rounds),
    }
    with bench(data) as running:
        return [running.row(*asked[name]) for name in cases]


def processor_s(pid: int) -> float:
    """What a process has used so far, in its own code and in the kernel's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def jvm_of(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _pid_of_jvm(spark: SparkSession) -> int:
    return int(jvm_of(spark).java.lang.ProcessHandle.current().pid())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="the broker's folder, kept for another run")
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    asked = parser.parse_args()
    rows = measure(asked.records, asked.rounds, asked.data, tuple(asked.cases))
    print(title("The read", "pyspark", "confluent-kafka", by="bench-read"))
    print(*(f"| {' | '.join(cells)} |" for cells in (COLUMNS, ALIGNED)), *(row.line() for row in rows), sep="\n")
    print("\n`ratio` is the median of the rounds' ratios by the clock, `processor` that of Spark's processor time.")
    print("`own part` is what is not the sink, as a part of the sink's time in the same run.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
