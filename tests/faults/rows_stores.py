"""What happens to the work store: out of reach, full, torn, an older copy of itself, gone, or used by two Airflows."""

import resource
import shutil
import signal
from pathlib import Path

import psutil

from testbed import kafka_proxy
from testbed.kafka_proxy import NotFired
from tests.faults import moments
from tests.faults.rows import row
from tests.faults.scene import BATCHES, DEADLINE_S, PromiseBroken, Scene, another_airflow, begun, report
from tests.faults.spying import driver, when_file


def _out_of_reach(s: Scene) -> None:
    """A file in the place of the folder: what a mount that is gone leaves."""
    assert s.runs[-1].batch
    s.store.rename(s.store.with_name("store.kept"))
    s.store.touch()


def _back(s: Scene) -> None:
    s.store.unlink()
    s.store.with_name("store.kept").rename(s.store)


def _put_away(s: Scene, name: str) -> Path:
    """The store under another name, where the watcher still finds what was verified."""
    away = s.store.with_name(name)
    s.store.rename(away)
    s.watcher.former_stores.append(away)
    return away


@row(
    "Stores",
    "work store unreachable before the commit",
    ends="refused",
    made="a file in the place of the folder as soon as the report is there; put back after the run has failed",
    cause="StoreUnavailable",
    remedy="put the work store back, clear the commit task",
)
def unreachable_before_the_commit(s: Scene) -> str:
    s.produce()
    with when_file(s.store, report(), lambda _: _out_of_reach(s)) as seen:
        run = s.start("fault_batch_once")
        seen.wait()
        s.refused(run, "commit", "StoreUnavailable", "Check that the work store exists")
    _back(s)
    run.clear("commit").wait()
    return f"{seen.proof()}, the folder went away"


@row(
    "Stores",
    "work store unreachable between commit and the write to the group",
    ends="healed",
    made="a file in the place of the folder when the log has the commit and the group is looked at; put back when the "
    "first try has failed",
    in_every_test_run=True,
)
def unreachable_between_commit_and_mirror(s: Scene) -> str:
    s.produce()
    rule = s.arm("the folder went away", moments.MIRROR_LOOKS, kafka_proxy.before(lambda: _out_of_reach(s)))
    run = s.start()
    rule.wait(DEADLINE_S)
    run.wait_for_task("commit", lambda task: task.tries > 1 or task.state == "up_for_retry")
    group = s.committed()
    _back(s)
    entries = len(s.objects(f"{BATCHES}/*[0-9].json"))
    run.wait()
    if group or entries != 2:
        raise NotFired(f"the group was at {group}, and the batch's log had {entries} entries")
    return f"{rule.proof()}; the log had plan and commit then, and the group nothing"


@row(
    "Stores",
    "work store unreachable after the group is written",
    ends="healed",
    made="a file in the place of the folder from the write's answer on: the commit task looks at the log once more; "
    "put back when the first try has failed",
)
def unreachable_after_the_write(s: Scene) -> str:
    s.produce()
    rule = s.arm("the folder went away", moments.MIRROR_WRITES, kafka_proxy.after(lambda: _out_of_reach(s)))
    run = s.start()
    rule.wait(DEADLINE_S)
    run.wait_for_task("commit", lambda task: task.tries > 1 or task.state == "up_for_retry")
    at = sorted(s.committed().values())
    _back(s)
    run.wait()
    s.produce(50)
    s.run()
    return f"{rule.proof()}; the group was at {at} then"


@row(
    "Stores",
    "work store full",
    ends="healed",
    made="RLIMIT_FSIZE of the task's process is set to 16 bytes when it looks up offsets: a write beyond that fails",
)
def full(s: Scene) -> str:
    limits: list[int] = []

    def no_room(exchange: kafka_proxy.Exchange) -> bytes:
        process: psutil.Process = exchange.client_process()
        process.rlimit(resource.RLIMIT_FSIZE, (16, 16))
        limits.append(process.rlimit(resource.RLIMIT_FSIZE)[0])
        return exchange.forward()

    s.produce()
    rule = s.arm("no room", moments.RESOLVE_LOOKS_UP, no_room)
    run = s.run()
    said = run.log("orders.resolve", 1)
    if "StoreUnavailable" not in said or limits != [16]:
        raise NotFired(f"limits {limits}; {said[-2000:]}")
    return f"{rule.proof()}; resolve said StoreUnavailable and succeeded at try {run.task('resolve').tries}"


def _torn(s: Scene, number: int) -> str:
    """Cut an entry of the newest batch's log to half, see the next run refused, and restore it."""
    s.produce()
    s.run()
    torn = s.objects(f"{BATCHES}/{number}.json")[-1]
    whole = torn.read_bytes()
    torn.write_bytes(whole[: len(whole) // 2])
    s.produce(50)
    run = s.start("fault_batch_once")
    s.refused(run, "wait_for_partitions", "StoreDamaged", f"0000000001/{number}.json", "Restore it from a copy")
    torn.write_bytes(whole)
    run.clear("wait_for_partitions").wait()
    return f"{number}.json of batch 1 was cut: {len(whole)} → {len(whole) // 2} bytes"


@row(
    "Stores",
    "torn plan",
    ends="refused",
    made="the plan of the newest batch is cut to half between two runs",
    cause="StoreDamaged",
    remedy="restore the object that is named, clear the run",
)
def torn_plan(s: Scene) -> str:
    return _torn(s, 1)


@row(
    "Stores",
    "torn commit",
    ends="refused",
    made="the commit of the newest batch is cut to half between two runs",
    cause="StoreDamaged",
    remedy="restore the object that is named, clear the run",
)
def torn_commit(s: Scene) -> str:
    return _torn(s, 2)


def _older_copy(s: Scene) -> Path:
    """Two batches, and then the work store as it was after the first; where the newest copy is."""
    s.produce()
    s.run()
    shutil.copytree(s.store, s.store.with_name("yesterday"))
    s.produce(50)
    s.run()
    newest = _put_away(s, "store.newest")
    s.store.with_name("yesterday").rename(s.store)
    s.produce(30)
    return newest


@row(
    "Stores",
    "work store restored from a backup of yesterday",
    ends="refused",
    made="the folder as it was after the first of two runs, in the place of the newest",
    cause="StoreBehindGroup",
    remedy="restore the newest copy, clear the resolve task",
)
def older_copy(s: Scene) -> str:
    newest = _older_copy(s)
    run = s.start("fault_batch_once")
    s.refused(run, "resolve", "StoreBehindGroup", "is number 1", "the mark of batch 2", "Restore the newest copy")
    shutil.rmtree(s.store)
    newest.rename(s.store)
    run.clear("resolve").wait()
    return "the log ended with batch 1, and the group's offsets named batch 2"


@row(
    "Stores",
    "work store restored from a backup of yesterday, and no newer one",
    ends="refused",
    made="as before",
    cause="StoreBehindGroup",
    remedy='a run with policies={"group_moved": "adopt-group"} in its conf',
)
def older_copy_for_good(s: Scene) -> str:
    _older_copy(s)
    run = s.start("fault_batch_once")
    s.refused(run, "resolve", "StoreBehindGroup", 'policies={"group_moved": "adopt-group"}')
    after = s.run(orders={"policies": {"group_moved": "adopt-group"}})
    if not after.batch.startswith("0000000003-"):
        raise PromiseBroken(f"the batch after the loss is {after.batch}")
    return f"the log ended with batch 1, the group's offsets named batch 2, and the next one was {after.batch[:10]}"


@row(
    "Stores",
    "work store lost",
    ends="healed",
    made="the folder is gone between two runs",
)
def lost(s: Scene) -> str:
    s.produce()
    s.run()
    _put_away(s, "store.lost")
    s.produce(50)
    run = s.run()
    said = run.log("orders.resolve", 1)
    if "goes on from the group's offsets" not in said or not run.batch.startswith("0000000002-"):
        raise NotFired(f"batch {run.batch}; {said[-2000:]}")
    return "resolve went on from the group's offsets, with batch 2"


@row(
    "Stores",
    "work store lost with a batch that was written and not committed",
    ends="refused",
    made="a check after Spark fails, and then the folder is gone; nobody knows the batch whose rows are in the output",
    cause="UnknownOutput",
    remedy='after WorkStoreLost a run with "restart" in its conf; remove the batches that are named, clear its Spark',
)
def lost_with_unfinished(s: Scene) -> str:
    s.produce()
    first = s.start("fault_batch_checked", reject=True).wait("failed")
    left = first.batch
    _put_away(s, "store.lost")
    run = s.start("fault_batch_checked")
    s.refused(run, "resolve", "WorkStoreLost", '{"kafka_offsets": {"restart": true}}')
    again = s.start("fault_batch_checked", orders={"restart": True})
    s.refused(again, "spark", "UnknownOutput", left, "remove them from the output")
    shutil.rmtree(s.output / f"kafka_batch={left}")
    again.clear("spark").wait()
    return f"the output held {left[:10]}… of a log that was gone"


@row(
    "Stores",
    "two Airflows that share group and store",
    ends="refused",
    made="a second Airflow, with a metadata database of its own, runs the same DAG on the same work store and group",
    cause="AnotherAirflow",
    remedy="a work store and group of its own; or, in the place of the other, "
    'policies={"another_airflow": "take-over"} once',
)
def two_airflows(s: Scene) -> str:
    s.produce()
    s.run("fault_batch_once")
    s.produce(50)
    with another_airflow(s.folder / "airflow", s.ground.postgres, s.ground.environment) as other:
        run = s.start("fault_batch_once", airflow=other)
        s.refused(run, "resolve", "AnotherAirflow", "a work store and a group_id of its own", "take-over")
        s.run("fault_batch_once", airflow=other, orders={"policies": {"another_airflow": "take-over"}})
    s.refused(s.start("fault_batch_once"), "resolve", "AnotherAirflow")
    return "the second one was refused, and when it had taken over the first"


@row(
    "Stores",
    "take-over while the old Airflow's run is in Spark",
    ends="refused",
    made="a run's driver hangs (SIGSTOP) before its read; a second Airflow takes the pipeline over by `airflow "
    "kafka-offsets take-over`; the driver goes on, writes and reports; then the second Airflow runs the DAG",
    cause="AnotherAirflow",
    remedy="leave the run: the other Airflow does its batch again; pause the old DAG",
)
def taken_over_beside_a_run(s: Scene) -> str:
    s.produce()
    s.run("fault_batch_once")
    s.produce(50)
    with another_airflow(s.folder / "airflow", s.ground.postgres, s.ground.environment) as other:
        with when_file(
            s.store, "pipelines/*/batches/*/0000000002/0-*.begun.json", lambda _: driver(s).suspend()
        ) as seen:
            old = s.start("fault_batch_once")
            seen.wait()
        where = ("--kafka-config-id", "kafka_commit", "--work-store", str(s.store), "--pipeline-id", s.group)
        said = other.cli("kafka-offsets", "take-over", *where, "--execute")
        driver(s).send_signal(signal.SIGCONT)
        s.refused(old, "commit", "AnotherAirflow")
        new = s.run("fault_batch_once", airflow=other)
        if new.batch != old.batch or not s.objects(begun(0, 2)):
            raise NotFired(f"{new.batch} was done, not {old.batch}: {s.objects(begun(0, 2))}")
        s.refused(s.start("fault_batch_once"), "resolve", "AnotherAirflow")
    return f"{seen.proof()}, it was stopped; {said.strip().splitlines()[0].partition(': ')[2]}"
