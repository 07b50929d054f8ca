"""The page of a pipeline of 10,000 batches of 10,000 partitions, whose log is on S3 at 50 ms a request.

``python -m benchmarks.page`` (``make bench-page``). The log is one real batch and copies of it, the Kafka a real broker
with all of its partitions, the S3 a server whose wire takes 25 ms each way. A page is what the API server does for it:
from the route to the HTML. Only Airflow's database is left out: who asks, and the XComs of the last runs.
"""

from __future__ import annotations

import logging
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fastapi.testclient import TestClient

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.work import PlanReference
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.offsets import Timestamp
from airflow_kafka_offsets.page import pipelines, routes, unread
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import decode, encode
from benchmarks.clusters import PATTERN, many_partitions
from benchmarks.measured import Run, Way, options, say, show, take_turns, within
from benchmarks.pipeline import Pipeline
from testbed.airflow_home import connections
from testbed.java import find_java
from testbed.ports import free_ports
from testbed.s3_files import S3Files
from testbed.s3_server import environment_of
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR
from tests.engine.pipeline import Pipeline as InMemoryPipeline

BUCKET, DAG, NAME = "checkpoints", "bench", "bench"
EACH_WAY_MS, MOST_S = 25, 1.0


def main() -> int:
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    parser = options(__doc__, rounds=9)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=10_000)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench-page-") as folder,
        many_partitions(find_java(say), asked.partitions) as cluster,
        S3Files(Path(folder) / "buckets", say) as s3,
        far_away(s3.endpoint) as endpoint,
    ):
        say(f"a log of {asked.batches:,} batches …")
        keys = {
            kind: fill(s3.folder / BUCKET / kind, one_batch(cluster.near, kind), asked.batches)
            for kind in ("sequence", "window")
        }
        os.environ |= environment_of(endpoint) | connections({"bootstrap.servers": cluster.near})
        ways = {
            ("in sequence", "the pipeline"): page_of("sequence", keys, asked.batches),
            ("in sequence", "one batch"): page_of("sequence", keys, asked.batches, f"/batches/{asked.batches}"),
            ("by window", "the pipeline"): page_of("window", keys, asked.batches),
        }
        requests = {about: counted(s3, ask) for about, ask in ways.items()}
        timed = [Way(" ".join(about), first_reader(ask)) for about, ask in ways.items()]
        take_turns(timed, asked.rounds)
    columns = ("pipeline", "page of", "requests to the store", "median, s", "quartiles, s", "slowest, s", "at most, s")
    rows = [
        (*about, requests[about], f"{way.median_s:.2f}", way.spread, f"{max(way.seconds):.2f}",
         within(statistics.median(way.seconds), MOST_S))
        for about, way in zip(ways, timed, strict=True)
    ]  # fmt: skip
    sentence = (
        f"A page of {asked.batches:,} batches of {asked.partitions:,} partitions, with the log on S3 at "
        f"{2 * EACH_WAY_MS} ms a request, takes less than {MOST_S:g} s of server time."
    )
    show("page", "The page of a large pipeline far away", columns, rows, sentence, "fastapi", "obstore",
         write=asked.write)  # fmt: skip
    return 0


def one_batch(servers: str, kind: str) -> dict[str, bytes]:
    """The objects of a pipeline with one batch, planned over a real broker and committed with a report.

    :param kind: ``sequence`` or ``window``.
    """
    now = now_ms()
    window = {"start": Timestamp(now - HOUR), "end": Timestamp(now)}
    how = window if kind == "window" else {"group_id": NAME}
    pipeline = Pipeline(servers, {"topics": f"^{PATTERN}", "pipeline_id": NAME, **how}, MemoryStore())
    work = pipeline.resolve()
    InMemoryPipeline(InMemoryCluster(), store=pipeline.store).drive(work)
    pipeline.commit(work)
    assert isinstance(pipeline.store, MemoryStore)
    return pipeline.store.objects


def fill(root: Path, objects: dict[str, bytes], batches: int) -> str:
    """Copies of the batch: each with a header of its own, whose larger objects are one file. Returns the last key."""
    log = PipelineLog(MemoryStore(), NAME)
    first, identity = root / "first", root / log.root / "pipeline"
    own = dict[str, bytes]()
    for folder in (first, identity):
        folder.mkdir(parents=True)
    for path, data in objects.items():
        place, _, name = path.rpartition("/")
        if place == log.folder(1):
            own[name] = data
            (first / name).write_bytes(data)
        elif place.endswith("/pipeline"):
            (identity / name).write_bytes(data)
    plan = decode(own["1.json"])
    for number in range(1, batches + 1):
        folder = root / log.folder(number)
        folder.mkdir(parents=True)
        key = f"{number:010}{plan['key'][10:]}"
        window = plan["window"] and [bound - (batches - number) * HOUR for bound in plan["window"]]
        (folder / "1.json").write_bytes(encode({**plan, "number": number, "key": key, "window": window}))
        for name in own.keys() - {"1.json"}:
            (folder / name).hardlink_to(first / name)
    return key


@contextmanager
def far_away(endpoint: str) -> Iterator[str]:
    (port,) = free_ports(1)
    upstream = endpoint.removeprefix("http://")
    command = [sys.executable, "-m", "testbed.delay_proxy", str(port), upstream, str(EACH_WAY_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            assert proxy.stdout.readline() == "ready\n"
            yield f"http://127.0.0.1:{port}"
        finally:
            proxy.kill()


def page_of(kind: str, keys: dict[str, str], batches: int, place: str = "") -> Callable[[], object]:
    """Asks the route."""
    run = RunKey("bench", "run", "resolve")
    plan = PlanReference(NAME, f"s3://{BUCKET}/{kind}", batches, 1, "any", keys[kind], run, starts_job=True)
    app = routes.page
    for dependency in routes.of_dag.dependencies:
        app.dependency_overrides[dependency.dependency] = lambda: None
    client = TestClient(app)
    of_airflow: dict[str, Any] = {
        "plans_of": lambda *_: [plan],
        "failed_run": lambda dag_id, name: None,
        "run_state": lambda run: None,
    }

    def ask() -> None:
        names = {plan.checkpoint_location, plan.kafka_config_id}
        with patch.multiple(routes, **of_airflow), patch.object(pipelines, "names_of", lambda dag_id: names):
            answer = client.get(f"/dags/{DAG}{place}", params={"pipeline": NAME})
        assert answer.status_code == 200, answer.text

    return ask


def first_reader(ask: Callable[[], object]) -> Callable[[Run], None]:
    """Kafka's answer is not known yet, and no earlier question is on its way."""

    def do(run: Run) -> None:
        settle()
        with run:
            ask()

    return do


def settle() -> None:
    """Wait for Kafka's answers, and forget them."""
    while unread._asked:
        unread._asked.popitem()[1].future.result(60)


def counted(s3: S3Files, ask: Callable[[], object]) -> int:
    """How many requests it takes, with those of the question to Kafka."""
    settle()
    before = s3.asked
    ask()
    settle()
    return s3.asked - before


if __name__ == "__main__":
    sys.exit(main())
