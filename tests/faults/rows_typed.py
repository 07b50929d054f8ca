"""Rows in one output and bad records in another: what a reader of both sees when a fault comes in between."""

from pathlib import Path

import pyarrow as pa

from testbed.kafka_proxy import NotFired
from tests.faults.rows import row
from tests.faults.scene import EMPTY, PromiseBroken, Scene, in_place, report
from tests.faults.spying import driver, when_file

DAG, ONCE = "fault_typed", "fault_typed_once"
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
