"""What happens to the Spark job: killed, cut off, or written by somebody who does not keep to the plan."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import sqlalchemy

from testbed.kafka_proxy import NotFired
from tests.faults.rows import row
from tests.faults.scene import (
    BUCKET,
    EMPTY,
    FIRST_PLAN,
    PromiseBroken,
    Scene,
    begun,
    finished_task,
    in_place,
    report,
)
from tests.faults.spying import driver, when_file


def _killed(s: Scene, folder: Path, pattern: str, splits: int = 1, split: int = 0) -> str:
    """Kill the driver of a split as soon as a file is there; Airflow's retry brings the run to its end."""

    def kill(_: object) -> None:
        process = driver(s, split)
        process.send_signal(signal.SIGSTOP)
        kept.extend(s.objects(report(split)))
        process.kill()

    kept: list[Path] = []
    s.produce()
    with when_file(folder, pattern, kill) as seen:
        run = s.run(splits=splits)
    tries = run.task("spark", split).tries
    if tries < 2 or kept:
        raise NotFired(f"{tries} tries; reports that were there already: {kept}")
    return f"{seen.proof()}, and no report; split {split} succeeded at try {tries}"


@row(
    "Spark",
    "driver killed before the read",
    ends="healed",
    made="SIGKILL of the driver when its attempt is on record",
)
def killed_before(s: Scene) -> str:
    return _killed(s, s.store, begun())


@row(
    "Spark",
    "driver killed during the read",
    ends="healed",
    made="SIGSTOP of the driver when the first of its tasks has finished its file, then SIGKILL",
    in_every_test_run=True,
)
def killed_during(s: Scene) -> str:
    return _killed(s, s.output, finished_task())


@row(
    "Spark",
    "driver killed after the read",
    ends="healed",
    made="SIGKILL of the driver when its files are in their place and its report is not there",
)
def killed_after(s: Scene) -> str:
    return _killed(s, s.output, in_place())


@row(
    "Spark",
    "one of two splits killed and retried",
    ends="healed",
    made="SIGKILL of the driver of split 1 in the middle of its write; split 0 goes on",
)
def one_split_killed(s: Scene) -> str:
    proof = _killed(s, s.output, finished_task(1), splits=2, split=1)
    if s.objects(begun(0, 2)):
        raise PromiseBroken("split 0 was read twice")
    return f"{proof}; split 0 was read once"


@row(
    "Spark",
    "partition cut among two splits, one killed and partly gone",
    ends="refused",
    made="a batch of one partition with 25,000 records, of which each of two splits has half; SIGKILL of the driver of "
    "split 1 in the middle of its write; DeleteRecords of all that split 0 has verified, and of 2,500 more",
    cause="DataLoss",
    remedy='a run with policies={"data_loss": "advance"} in its conf: it plans split 1 anew, and counts 2,500 lost',
    scene={"partitions": 1, "watched_partitions": 1},
)
def cut_and_killed(s: Scene) -> str:
    s.produce(25_000)
    with when_file(s.output, finished_task(1), lambda _: driver(s, 1).kill()) as seen:
        first = s.start("fault_batch_once", splits=2)
        seen.wait()
        first.wait("failed")
    states = [first.task("spark", split).state for split in (0, 1)]
    s.broker.delete_records({(s.topic, 0): 15_000})
    s.refused(s.start("fault_batch_once", splits=2), "resolve", "DataLoss", "2500 offsets are gone")
    s.gone = set(range(12_500, 15_000))
    after = s.run("fault_batch_once", splits=2, orders={"policies": {"data_loss": "advance"}})
    if states != ["success", "failed"] or s.objects(begun(0, 2)) or after.batch != first.batch:
        raise NotFired(f"the splits ended as {states}; split 0 began again: {s.objects(begun(0, 2))}; {after.batch}")
    return f"{seen.proof()}, and split 0 was verified; its 12,500 rows stayed, and split 1 had 10,000 left"


@row(
    "Spark",
    "executor lost",
    ends="healed",
    made="a master, a worker and an executor as processes (`local-cluster`); SIGKILL of the executor when the first "
    "task has finished",
    scene={"partitions": 4},
)
def executor_lost(s: Scene) -> str:
    killed: list[int] = []

    def kill(_: object) -> None:
        for process in driver(s).children(recursive=True):
            with suppress(psutil.Error):
                if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                    killed.append(process.pid)
                    process.kill()

    s.produce(2_000)
    with when_file(s.output, finished_task(), kill) as seen:
        run = s.run("fault_batch_with_executors")
    if not killed:
        raise NotFired("no executor was found")
    by = "Spark's own retry" if run.task("spark").tries == 1 else "Airflow's retry"
    return f"{seen.proof()}, {len(killed)} executor was killed; {by} read on"


@row(
    "Spark",
    "job reads half and exits 0",
    ends="refused",
    made="a job that keeps the first half of its records, reports what it wrote, and exits 0",
    cause="ReadNotVerified",
    remedy="deploy the right job, clear the Spark task",
)
def reads_half(s: Scene) -> str:
    s.produce()
    s.deploy("reads_half.py")
    run = s.start("fault_batch_once")
    s.refused(run, "commit", "ReadNotVerified", "Clear the run from its Spark task on")
    written = sum(s.rows().values())
    if not 0 < written < 200:
        raise NotFired(f"it wrote {written} of 200 records")
    s.deploy_real()
    run.clear("spark").wait()
    return f"{written} of 200 records were written, and the job exited 0"


@row(
    "Spark",
    "join that loses a record and doubles another",
    ends="refused",
    made="a job whose join writes the right number of rows with the right first and last offset, one record twice and "
    "one not at all, and exits 0",
    cause="ReadNotVerified",
    remedy="deploy the right job, clear the Spark task",
)
def joins_badly(s: Scene) -> str:
    s.produce()
    s.deploy("joins_badly.py")
    run = s.start("fault_batch_once")
    s.refused(run, "commit", "ReadNotVerified", "twice: 100 rows for 99 different offsets")
    found = s.numbers()
    if (len(found), len(set(found))) != (200, 198):
        raise NotFired(f"{len(found)} rows of {len(set(found))} records were written")
    s.deploy_real()
    run.clear("spark").wait()
    return f"{len(found)} rows of {len(set(found))} records were written, and the job exited 0"


@row(
    "Spark",
    "job ignores the plan",
    ends="refused",
    made="a job that reads the whole topic; records arrive after the plan was made",
    cause="ReadNotVerified",
    remedy="deploy the right job, clear the Spark task",
)
def ignores_the_plan(s: Scene) -> str:
    s.produce()
    s.deploy("ignores_the_plan.py")
    with when_file(s.store, FIRST_PLAN, lambda _: s.produce(60)) as seen:
        run = s.start("fault_batch_once")
        seen.wait()
        s.refused(run, "commit", "ReadNotVerified", "Clear the run from its Spark task on")
    written = sum(s.rows().values())
    if written != 260:
        raise NotFired(f"it wrote {written} records")
    s.deploy_real()
    run.clear("spark").wait()
    s.run()
    return f"{written} records were written, and the plan had 200"


@row(
    "Spark",
    "job writes and dies before its report",
    ends="healed",
    made="a job whose process ends (exit 1) between its write and its report, the first time",
)
def dies_before_its_report(s: Scene) -> str:
    s.produce()
    s.deploy("dies_before_its_report.py")
    run = s.run()
    tries = run.task("spark").tries
    if tries < 2 or not s.job.with_name("died").exists():
        raise NotFired(f"{tries} tries")
    return f"it died once; spark succeeded at try {tries}"


@row(
    "Spark",
    "report truncated",
    ends="refused",
    made="the report's object cut to half by hand, before the commit task reads it",
    cause="StoreDamaged",
    remedy="clear the Spark task",
)
def report_truncated(s: Scene) -> str:
    sizes: list[str] = []

    def truncate(written: Path) -> None:
        text = written.read_bytes()
        written.write_bytes(text[: len(text) // 2])
        sizes.append(f"{len(text)} → {written.stat().st_size} bytes")

    s.produce()
    with when_file(s.store, report(), truncate) as seen:
        run = s.start("fault_batch_once")
        seen.wait()
        s.refused(run, "commit", "StoreDamaged", "Cannot use object", "its digest is missing or wrong")
    run.clear("spark").wait()
    return f"{seen.proof()}, it was cut: {sizes[0]}"


@row(
    "Spark",
    "line separators in a partition value, and the batch done again",
    ends="healed",
    made="a job that partitions its files by a column with U+2028 in every second value; a check fails after the first "
    "write, and the next run does the batch again",
)
def line_separators(s: Scene) -> str:
    s.produce()
    s.deploy("by_value.py")
    first = s.start("fault_batch_checked", reject=True).wait("failed")
    written = s.rows()
    if written != {first.batch: 200}:
        raise PromiseBroken(f"the first write of 200 records left {written}")
    s.run("fault_batch_checked")
    folders = sorted(folder.name for folder in s.output.glob("place=*"))
    if folders != ["place=Bern", "place=Bern\u2028West"]:
        raise NotFired(f"the folders are {folders}")
    return f"200 records were written and rejected, and once more, below {folders}"


@row(
    "Spark",
    "records deleted while a verified split is written again",
    ends="healed",
    made="a check fails after the write, and the Spark task is cleared: SIGSTOP of the driver when its second attempt "
    "is on record, DeleteRecords of all that it reads, SIGCONT",
)
def retention_during_a_clear(s: Scene) -> str:
    def retention(_: object) -> None:
        process = driver(s)
        process.send_signal(signal.SIGSTOP)
        s.broker.delete_records({(s.topic, 0): 100, (s.topic, 1): 100})
        process.send_signal(signal.SIGCONT)

    s.produce()
    first = s.start("fault_batch_checked", reject=True).wait("failed")
    with when_file(s.store, begun(attempt=2), retention) as seen:
        first.clear("spark").wait("failed")
    if first.task("spark").state != "failed" or s.rows() != {first.batch: 200}:
        raise NotFired(f"spark is {first.task('spark').state}; the output is {s.rows()}")
    second = s.run("fault_batch_checked")
    if second.batch != first.batch or s.objects(begun(attempt=3)):
        raise PromiseBroken(f"{second.batch} was done, not {first.batch}: {s.objects(begun(attempt=3))}")
    return f"{seen.proof()}; the second attempt failed, and the next run committed what the first had written"


@row(
    "Spark",
    "batch left out whose output is not read back",
    ends="healed",
    made="a job whose function writes and returns nothing; a check fails after the write, and a person orders `skip`",
)
def skipped_and_not_read_back(s: Scene) -> str:
    s.produce()
    s.deploy("returns_nothing.py")
    first = s.start("fault_batch_checked", reject=True).wait("failed")
    if s.rows() != {first.batch: 200}:
        raise NotFired(f"the output is {s.rows()}")
    run = s.run("fault_batch_checked", orders={"skip": {"batch": first.batch, "reason": "cannot pass"}})
    if run.batch != first.batch or not s.objects(begun(attempt=2)):
        raise PromiseBroken(f"{run.batch} was done, not {first.batch}")
    if "scanned, not read back" not in (said := run.log("orders.commit", 1)):
        raise PromiseBroken(f"the commit does not say what was proved:\n{said[-2000:]}")
    s.gone = set(range(200))
    return "200 records were written and rejected, and the batch was committed empty"


@row(
    "Spark",
    "a database's URL with autosave=always",
    ends="healed",
    made="a job that writes 2,500 records in a task, in JDBC batches of 1,000, by `jdbc` and by `upsert` to "
    "PostgreSQL; the URL has `?autosave=always`, which makes each batch a transaction of its own",
)
def autosave_always(s: Scene) -> str:
    database = sqlalchemy.make_url(s.ground.postgres.new_database())
    engine = sqlalchemy.create_engine(database, poolclass=sqlalchemy.NullPool)

    def asked(statement: str) -> list[dict[str, Any]]:
        with engine.connect() as connection:
            return [dict(found) for found in connection.execute(sqlalchemy.text(statement)).mappings()]

    def read() -> pa.Table:
        columns = """topic, "partition", "offset", convert_from(value, 'UTF8') AS value, kafka_batch"""
        rows = asked(f"SELECT {columns} FROM orders") if sqlalchemy.inspect(engine).has_table("orders") else []
        return pa.Table.from_pylist(rows) if rows else EMPTY

    s.reader = read
    s.produce(5_000)
    s.deploy("into_a_database.py")
    place = f"jdbc:postgresql://{database.host}:{database.port}/{database.database}"
    run = s.run("fault_batch_once", output=f"{place}:orders")
    counts = 'count(*) AS rows, count(DISTINCT (topic, "partition", "offset")) AS records'
    (by_key,) = asked(f"SELECT {counts} FROM orders_by_key")
    if list(by_key.values()) != [5_000, 5_000] or s.rows() != {run.batch: 5_000}:
        raise PromiseBroken(f"upsert has left {by_key}, and jdbc {s.rows()}")
    return f"upsert has left {by_key['rows']} rows of {by_key['records']} records, and jdbc {s.rows()[run.batch]} rows"


@row(
    "Spark",
    "Delta table on S3, written by two drivers",
    ends="refused",
    made="a batch of two splits by `delta` to an `s3a` path, with Delta's own log store for S3",
    cause="lets two drivers overwrite each other's commit",
    remedy="name a path that is not on S3, and write it by `files`; start the next run",
    scene={"on_s3": True},
)
def delta_on_s3(s: Scene) -> str:
    s.produce()
    s.deploy("writes_delta.py")
    name = f"{s.topic}-table"
    run = s.start("fault_batch_once", splits=2, output=f"s3a://{BUCKET}/{name}")
    words = "InvalidRequest", "Nothing was written.", "=io.delta.storage.S3DynamoDBLogStore for every writer"
    s.refused(run, "spark", "lets two drivers overwrite each other's commit", *words)
    asked = [request for request in s.ground.s3.seen if name in request.path and "/outputs/" not in request.path]
    written = [request for request in asked if request.method not in ("GET", "HEAD")]
    other = run.task("spark", 1)
    if written or other.state != "failed" or s.objects(begun(0)) or s.objects(begun(1)):
        raise PromiseBroken(f"split 1 is {other.state}; on S3 was written {written}")
    s.deploy_real()
    s.run("fault_batch_once", splits=2)
    if len(s.objects(report(0)) + s.objects(report(1))) != 2:
        raise NotFired("the batch was not written by two drivers")
    return f"S3 was asked {len(asked)} times for the table, and nothing was written there"
