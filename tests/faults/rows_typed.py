"""Rows in one output and bad records in another: what a reader of both sees when a fault comes in between."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.dataset as ds
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from testbed.java import find_java
from testbed.kafka_proxy import NotFired
from testbed.registry_server import RegistryServer
from tests.faults.rows import row
from tests.faults.scene import EMPTY, PromiseBroken, Run, Scene, begun, in_place, report
from tests.faults.spying import driver, when_file

DAG, ONCE = "fault_typed", "fault_typed_once"
AVRO, AVRO_ONCE = "fault_avro", "fault_avro_once"
NO_SEVEN = "CAST(value AS INT) % 10 <> 7"  # 20 of 200 records are bad


def _both_outputs(s: Scene, expectation: str) -> Path:
    """Deploy the job with that expectation; who reads reads both outputs from now on. Returns that of bad records."""
    bad = s.output.with_name("output-bad")

    def read() -> pa.Table:
        rows, set_aside = s.table(s.output), s.table(bad)
        at = set_aside.schema.get_field_index("value")
        set_aside = set_aside.set_column(at, "value", set_aside["value"].cast(pa.string()))
        return pa.concat_tables([found for found in (rows, set_aside) if found.num_rows] or [EMPTY])

    s.reader = read
    s.deploy("writes_typed_rows.py")
    s.airflow.set_variable("fault_expectation", expectation)
    return bad


@row(
    "Spark",
    "driver killed between the rows and the bad records",
    ends="healed",
    made="SIGKILL of the driver when the files of the rows are in their place and 20 bad records of 200 are nowhere",
)
def killed_between(s: Scene) -> str:
    bad = _both_outputs(s, NO_SEVEN)
    kept: list[Path] = []

    def kill(_: object) -> None:
        process = driver(s)
        process.suspend()
        kept.extend([*s.objects(report()), *bad.glob(in_place())])
        process.kill()

    s.produce()
    with when_file(s.output, in_place(), kill) as seen:
        run = s.run(DAG)
    tries = run.task("spark").tries
    if tries < 2 or kept:
        raise NotFired(f"{tries} tries; there already: {kept}")
    if (found := (s.table(s.output).num_rows, s.table(bad).num_rows)) != (180, 20):
        raise PromiseBroken(f"rows and bad records: {found}")
    return f"{seen.proof()}, and no bad record; try {tries} left 180 rows and 20 bad records"


@row(
    "Spark",
    "one bad record more than the limit",
    ends="refused",
    made="20 bad records of 200, and the limit is 19",
    cause="BadRecords",
    remedy="set the limit to 20, and start the next run",
)
def over_the_limit(s: Scene) -> str:
    bad = _both_outputs(s, NO_SEVEN)
    s.produce()
    words = "20 records of", "the limit 19 allows 19", "the expectation 'the number is expected' is not met"
    s.refused(s.start(ONCE, limit="19"), "spark", "BadRecords", *words)
    if s.rows():
        raise PromiseBroken(f"the refused run has left {s.rows()}")
    s.run(ONCE, limit="20")
    if (found := (s.table(s.output).num_rows, s.table(bad).num_rows)) != (180, 20):
        raise PromiseBroken(f"rows and bad records: {found}")
    return "the run with the limit 19 wrote nothing; that with 20 left 180 rows and 20 bad records"


@row(
    "Spark",
    "a committed batch done again with a mended expectation",
    ends="healed",
    made="20 bad records of 200 are set aside and committed; the DAG's expectation becomes another one, by which none "
    "is bad; the run is cleared",
)
def mended_and_done_again(s: Scene) -> str:
    bad = _both_outputs(s, NO_SEVEN)
    s.produce()
    run = s.run(ONCE)
    if (s.table(s.output).num_rows, s.table(bad).num_rows) != (180, 20):
        raise NotFired(f"{s.rows()}, of which bad: {s.table(bad).num_rows}")
    s.airflow.set_variable("fault_expectation", "CAST(value AS INT) >= 0")
    run.clear_whole().wait()
    if (found := (s.table(s.output).num_rows, s.table(bad).num_rows)) != (200, 0):
        raise PromiseBroken(f"rows and bad records: {found}")
    return "of 200 records 20 were set aside; after the clear all were rows, and none was set aside"


# ── a schema registry ─────────────────────────────────────────────────────────────────────────────────────────────────

ALL_GOOD, ALL_BAD = "value.number >= 0", "value.number < 0"
SHOWN_S = 25.0
"""The registry has 15 seconds to answer; the rest is for a process that starts and asks Kafka."""


class Registry:
    """A registry of the row's own; the connection of the rows' DAGs leads there."""

    def __init__(self, server: RegistryServer, subject: str) -> None:
        self.server, self.subject = server, subject
        self.process = psutil.Process(server.pid)

    def register(self, *more: str) -> Callable[[int], bytes]:
        """Register a schema of a number and `more` texts; returns what makes a record of it."""
        texts = [{"name": name, "type": "string", "default": "none"} for name in more]
        fields = [{"name": "number", "type": "long"}, *texts]
        schema = Schema(json.dumps({"type": "record", "name": "Order", "fields": fields}), "AVRO")
        number = SchemaRegistryClient({"url": self.server.url}).register_schema(self.subject, schema)
        text = "".join(f"{chr(2 * len(name))}{name}" for name in more).encode()  # its length, then the text
        return lambda value: b"\0" + number.to_bytes(4, "big") + _long(value) + text


@contextmanager
def _registry(s: Scene) -> Iterator[Registry]:
    with RegistryServer(find_java()) as server:
        s.airflow.set_connection("fault_registry", conn_type="http", host=server.url)
        yield Registry(server, f"{s.topic}-value")


def _long(value: int) -> bytes:
    """As Avro writes it."""
    rest, found = value << 1, []
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def _decoded(s: Scene, run: Run) -> list[dict[str, object]]:
    """The rows of the run's batch, as Spark has decoded them."""
    found = ds.dataset(str(s.output), format="parquet", partitioning="hive")
    rows = found.to_table(columns=["decoded"], filter=ds.field("kafka_batch") == run.batch)
    return [json.loads(row) for row in rows["decoded"].to_pylist()]


@row(
    "Spark",
    "a schema that changes between plan and read",
    ends="healed",
    made="when a driver has begun and has read nothing, the subject gets a version with one more field, and 100 "
    "records of it come after the batch's end (none can come before it: the registry is asked when the end is known); "
    "the DAG gets an expectation that no record meets; the driver is killed, and Spark's retry reads the batch",
)
def schema_changes_before_the_read(s: Scene) -> str:
    bad = _both_outputs(s, ALL_GOOD)
    with _registry(s) as registry:

        def change(_: Path) -> None:
            process = driver(s)
            process.suspend()
            s.produce(100, value=registry.register("discount"))
            s.airflow.set_variable("fault_expectation", ALL_BAD)
            process.kill()

        s.produce(value=registry.register())
        with when_file(s.store, begun(), change) as seen:
            first = s.run(AVRO)
        if (tries := first.task("spark").tries) < 2:
            raise NotFired(f"{tries} tries")
        rows = _decoded(s, first)
        if len(rows) != 200 or any("discount" in each for each in rows) or s.table(bad).num_rows:
            raise PromiseBroken(f"{len(rows)} rows, {rows[:2]}, and {s.table(bad).num_rows} bad records")
        s.airflow.set_variable("fault_expectation", ALL_GOOD)
        second = s.run(AVRO)
        said = second.log("orders.resolve", 1)
        if f"Schema of {registry.subject}: version 1 → 2: new column discount STRING." not in said:
            raise PromiseBroken(f"resolve does not say what has changed: {said[-3000:]}")
        rows = _decoded(s, second)
        if len(rows) != 100 or not all(each["discount"] == "discount" for each in rows):
            raise PromiseBroken(f"{len(rows)} rows, {rows[:2]}")
    return f"{seen.proof()}, version 2 came; try {tries} read 200 records by version 1, the next run 100 by version 2"


@row(
    "Stores",
    "schema registry gone when a batch is done again",
    ends="refused",
    made="SIGSTOP of the registry after a commit; the Spark task alone is cleared, which needs no registry and does "
    "the batch again; then the whole run is cleared, and another one plans a batch of new records",
    cause="RegistryUnavailable",
    remedy="let the registry go on, clear both runs",
)
def registry_gone_at_redo(s: Scene) -> str:
    _both_outputs(s, ALL_GOOD)
    with _registry(s) as registry:
        record = registry.register()
        s.produce(value=record)
        run = s.run(AVRO_ONCE)
        registry.process.suspend()
        run.clear("spark").wait()
        again = s.objects(report(0, 2))
        s.refused(run.look().clear_whole(), "resolve", "RegistryUnavailable", registry.server.url, registry.subject)
        seconds = run.task("resolve").seconds or SHOWN_S
        s.produce(50, value=record)
        planned = s.start(AVRO_ONCE)
        s.refused(planned, "resolve", "RegistryUnavailable", registry.server.url, registry.subject)
        if not again or not planned.batch or planned.batch == run.batch:
            raise NotFired(f"reports of the Spark task's clear: {again}; the batches: {run.batch}, {planned.batch}")
        if seconds >= SHOWN_S or s.rows() != {run.batch: 200}:
            raise PromiseBroken(f"after {seconds:.0f} s there are {s.rows()}")
        registry.process.resume()
        run.clear_whole().wait()
        planned.clear_whole().wait()
        if s.rows() != {run.batch: 200, planned.batch: 50} or not s.objects(report(0, 3)):
            raise PromiseBroken(f"the runs did not do their batches: {s.rows()}")
    return f"Spark's clear wrote 200 rows again; resolve gave up after {seconds:.0f} s; both batches were done then"
