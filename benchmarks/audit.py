"""How long the audit of a long log takes with its log on S3: 10,000 batches, 50 ms a request.

``python -m benchmarks.audit [--batches 10000] [--partitions 10 100]``. The log lies in files, which an S3 server over
files hands out (``testbed/s3_files.py``), behind a network of 25 ms each way. The store is opened as at a terminal, so
the work of s3fs and botocore is in the time. The server computes on the same cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import psutil
from s3fs import S3FileSystem

from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.whole_log import audit_log
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.stores.open import open_store
from benchmarks.measured import title
from benchmarks.slow_s3 import DELAY_MS, STORE, slow_s3
from tests.builders import PIPELINE, planned
from tests.model.store import MemoryStore
from tests.stores.builders import commit, plan_of, read

PROMISED_S = 10.0
PER_BATCH = 10  # offsets of each partition; some have more


def lay_log(root: Path, batches: int, partitions: int) -> None:
    """A log without a fault: each batch reads the same from each partition, by one split that has reported."""
    position: Position | None = None
    for number in range(1, batches + 1):
        store = MemoryStore()
        ends = [(n * 1_000_003, PER_BATCH + n % 7) for n in range(partitions)]
        rows = [planned(n, at + (number - 1) * size, at + number * size) for n, (at, size) in enumerate(ends)]
        plan = plan_of(number, rows, resolved_at_ms=1_600_000_000_000 + number * 3_600_000)
        begun = PipelineLog(store, PIPELINE).begin(number, Planned(plan, position))
        assert begun is not None
        read(begun)
        position = commit(begun, plan.resolved_at_ms).log.position
        (root / begun.folder).mkdir(parents=True)
        for name, data in store.objects.items():
            (root / name).write_bytes(data)


def measure(batches: int, partitions: int, rounds: int) -> float:
    """:returns: the fewest seconds of all rounds."""
    found = []
    with slow_s3(lambda root: lay_log(root, batches, partitions)) as server:
        for _ in range(rounds):
            S3FileSystem.clear_instance_cache()  # each opens the store anew
            asked, others, began, cpu = server.asked, _others_s(), time.perf_counter(), time.process_time()
            audited, damaged = audit_log(PipelineLog(open_store(STORE), PIPELINE))
            seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
            assert (len(audited), damaged) == (batches, [])
            assert all(one.is_contiguous for one in audited)
            found.append((seconds, cpu_s, _others_s() - others, server.asked - asked))
    fastest, cpu_s, others, requests = min(found)
    median = statistics.median(seconds for seconds, *_ in found)
    times = f"{fastest:.1f} s | {median:.1f} s | {cpu_s:.1f} s | {others:.1f} s"
    print(f"| {batches:,} | {partitions} | {requests:,} | {times} |", flush=True)
    return fastest


def _others_s() -> float:
    """What the server and the network have used of the processor: the processes that this one has started."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(found.user + found.system for found in times)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(title("An audit with its log on S3", "s3fs", "aiobotocore", by="bench-audit"))
    print(f"Each request to the S3 server takes {DELAY_MS} ms more. Server and network compute on the same cores.\n")
    print("| batches | partitions of each | requests | fastest | median | its processor | server's and network's |")
    print("|---|---|---|---|---|---|---|", flush=True)
    longest = max(measure(given.batches, partitions, given.rounds) for partitions in given.partitions)
    if longest > PROMISED_S:
        print(f"The audit takes {longest:.1f} s, and {PROMISED_S} s are promised.", file=sys.stderr)
    return int(longest > PROMISED_S)


if __name__ == "__main__":
    sys.exit(main())
