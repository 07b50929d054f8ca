"""``make bench``: how fast offsets are looked up, planned and committed, beside the protocol's floor and other ways.

``python -m benchmarks.bench [--sizes 100 1000 10000 50000] [--rounds N] [--json FILE]``. It starts its own brokers. All
times of a size are taken in turns in one run; what counts is each one's ratio to the floor (``floor.py``) of the same
work. The table ends with the ratios that the project promises, and says of each whether it holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.clusters import one_broker, three_brokers
from benchmarks.floor import LOG_END, LOG_START, Floor
from benchmarks.measured import Way, machine, say, take_turns
from benchmarks.ours import Ours
from benchmarks.rivals import CommandLine, Confluent, KafkaPython
from testbed.java import Java, find_java

GROUP, FLOOR, OURS = "bench", "raw socket", "airflow_kafka_offsets"
TIME_MS = 1_700_000_000_000
DELAY_MS = 0.5  # each way
RESULTS = Path(__file__).resolve().parent / "results"
MARK = '{"pipeline":"bench/orders/resolve","batch":"00000042-20261123T000000Z-abcd"}'
SEVERAL_BROKERS_FROM = 50_000
DISCOVERY, STARTS, ENDS, AT, COMMITTED, COMMIT = "discovery", "log starts", "ends", "times", "committed", "commit"
BOTH_ENDS, PLAN, RESET = "log starts and ends", "whole plan", "reset, dry run"
MIRROR, REPORT = "mirror", "report"
OF_A_PLAN = (DISCOVERY, STARTS, ENDS, COMMITTED)


@dataclass(frozen=True)
class Row:
    """One way's times at one size; milliseconds. ``ratio``: to the floor of the same work."""

    partitions: int
    network: str
    work: str
    way: str
    median_ms: float
    low_ms: float
    high_ms: float
    rounds: int
    ratio: float | None


def main() -> int:
    options = _options()
    java = find_java(say)
    rows: list[Row] = []
    memory: dict[int, float] = {}
    for size in options.sizes:
        if size >= SEVERAL_BROKERS_FROM:
            with three_brokers(java, size, say) as measured:
                rows += _of(size, "loopback, 3 brokers", measured.near, java, options.rounds, everything=False)
                memory[size] = _memory_mib(measured.near)
            continue
        with one_broker(java, size, DELAY_MS, say) as measured:
            rows += _of(size, "loopback", measured.near, java, options.rounds, everything=True)
            rows += _of(size, "1 ms", measured.far, java, options.rounds, everything=False)
            memory[size] = _memory_mib(measured.near)
    result = {
        "machine": machine("confluent-kafka", "kafka-python"),
        "rows": [asdict(row) for row in rows],
        "memory_mib": memory,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    subprocess.run([sys.executable, "-m", "benchmarks.report", str(options.json)], check=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000, SEVERAL_BROKERS_FROM])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, default=RESULTS / "bench.json")
    return parser.parse_args()


def _of(size: int, network: str, servers: str, java: Java, rounds: int, *, everything: bool) -> list[Row]:
    """The rows of one size over one network.

    :param everything: also the ways that take a JVM or another library.
    """
    say(f"{size:,} partitions, {network}")
    with ExitStack() as stack:
        floor = stack.enter_context(Floor(servers))
        ours = Ours(servers)
        stack.callback(ours.cluster.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        leaders = {p: leader for p, leader in floor.metadata().items() if not p[0].startswith("__")}
        assert len(leaders) == len(ours.partitions) == size, (len(leaders), len(ours.partitions), size)
        ours.commit(GROUP)
        batch = ours.committed_batch(f"{GROUP}-{network.split()[0]}-mirror", folder)
        confluent = Confluent(servers, sorted(leaders))
        loops = rounds if size <= 100 else 3 if size < SEVERAL_BROKERS_FROM else 1
        ways = [
            Way(DISCOVERY, FLOOR, floor.metadata, rounds),
            Way(DISCOVERY, OURS, ours.discover, rounds),
            Way(STARTS, FLOOR, partial(floor.offsets, leaders, LOG_START), rounds),
            Way(STARTS, OURS, ours.log_starts, rounds),
            Way(ENDS, FLOOR, partial(floor.offsets, leaders, LOG_END), rounds),
            Way(ENDS, OURS, ours.ends, rounds),
            Way(ENDS, "AdminClient.list_offsets, one call", confluent.list_offsets, rounds),
            Way(AT, FLOOR, partial(floor.offsets, leaders, TIME_MS), rounds),
            Way(AT, OURS, partial(ours.at, TIME_MS), rounds),
            Way(COMMITTED, FLOOR, partial(floor.committed, GROUP, leaders), rounds),
            Way(COMMITTED, OURS, partial(ours.committed, GROUP), rounds),
            Way(COMMITTED, "Consumer.committed, one call", confluent.committed, rounds),
            Way(COMMIT, FLOOR, partial(floor.commit, GROUP, dict.fromkeys(leaders, 0), MARK), rounds),
            Way(COMMIT, OURS, partial(ours.commit, GROUP, MARK), rounds),
            Way(PLAN, FLOOR, partial(_floor_of_a_plan, servers), rounds),
            Way(PLAN, f"{OURS}: plan", partial(ours.plan, GROUP), rounds),
            Way(PLAN, f"{OURS}: plan, JSON, options", partial(ours.plan_and_options, GROUP), rounds),
            Way(PLAN, f"{OURS}: resolve, on record", partial(ours.resolve, "bench-resolve", folder), min(rounds, 3)),
            Way(MIRROR, FLOOR, partial(_floor_of_a_mirror, servers), rounds),
            Way(MIRROR, OURS, batch.mirror, rounds),
            Way(REPORT, f"{OURS}: its JSON", batch.report_json, rounds),
            Way(REPORT, f"{OURS}: read from disk, verified", batch.verify, rounds),
            Way(BOTH_ENDS, "get_watermark_offsets, a loop", confluent.watermark_loop, loops),
        ]
        if everything:
            ways += _other_libraries(stack, servers, java, folder, sorted(leaders), rounds)
        take_turns(ways, say)
    return list(_rows(size, network, ways))


def _other_libraries(
    stack: ExitStack, servers: str, java: Java, folder: Path, partitions: Sequence[tuple[str, int]], rounds: int
) -> list[Way]:
    python = KafkaPython(servers, partitions)
    stack.callback(python.close)
    tools = CommandLine(java, servers, folder / "tools.log")
    topics = sorted({name for name, _ in partitions})
    few = min(rounds, 3)
    return [
        Way(STARTS, "kafka-python", python.log_starts, rounds),
        Way(ENDS, "kafka-python", python.ends, rounds),
        Way(AT, "kafka-python", partial(python.at, TIME_MS), rounds),
        Way("JVM start", "kafka-consumer-groups --version", tools.jvm, few),
        Way(ENDS, "kafka-get-offsets, with JVM start", tools.get_offsets, few),
        Way(RESET, "kafka-consumer-groups, with JVM start", partial(tools.reset_offsets, GROUP, topics), few),
    ]


def _floor_of_a_plan(servers: str) -> None:
    """Over connections of its own, as a plan has clients of its own."""
    with Floor(servers) as floor:
        leaders = {p: leader for p, leader in floor.metadata().items() if not p[0].startswith("__")}
        floor.offsets(leaders, LOG_START)
        floor.offsets(leaders, LOG_END)
        floor.committed(GROUP, leaders)


def _floor_of_a_mirror(servers: str) -> None:
    with Floor(servers) as floor:
        partitions = [p for p in floor.metadata() if not p[0].startswith("__")]
        offsets = floor.committed(f"{GROUP}-floor", partitions)
        floor.commit(f"{GROUP}-floor", dict.fromkeys(offsets, 0), MARK)


def _rows(size: int, network: str, ways: Iterable[Way]) -> Iterable[Row]:
    ways = list(ways)
    floors = {way.work: way.median_s for way in ways if way.name == FLOOR}
    floors[BOTH_ENDS] = floors[STARTS] + floors[ENDS]
    for way in ways:
        low, high = way.spread_s
        floor = floors.get(way.work)
        ratio = way.median_s / floor if floor else None
        times = (way.median_s * 1000, low * 1000, high * 1000)
        yield Row(size, network, way.work, way.name, *times, len(way.seconds), ratio)


def _memory_mib(servers: str) -> float:
    """The most that a plan's process held, above one that has only imported the package."""
    # Not getrusage's number: a new program inherits that of the process that started it.
    code = (
        "import re, sys; from benchmarks.ours import only_plan; only_plan(sys.argv[1:]);"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )

    def most(*arguments: str) -> float:
        run = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
        return float(run.stdout.split()[-1]) / 1024

    return most(servers, GROUP) - most()


if __name__ == "__main__":
    sys.exit(main())
