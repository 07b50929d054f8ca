"""What Airflow does to a run, and what is done to Airflow: killed workers, clears, late tries, an old database."""

import json
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psutil

from testbed import kafka_proxy
from testbed.checks import rows_by_batch
from testbed.kafka_proxy import NotFired
from testbed.topics import wait_for
from tests.faults import moments
from tests.faults.rows import row
from tests.faults.scene import BATCHES, DEADLINE_S, FIRST_PLAN, PromiseBroken, Run, Scene, begun, finished_task, report
from tests.faults.spying import driver, task_process, when_file


def _retried(run: Run, name: str, fault: str) -> str:
    tries = run.task(name).tries
    if tries < 2:
        raise NotFired(f"{fault}: {name} needed one try only")
    return f"{fault}; {name} succeeded at try {tries}"


@row(
    "Airflow",
    "worker killed in resolve before the plan is stored",
    ends="healed",
    made="SIGKILL of the process that sends the first look-up, before the broker gets it",
)
def killed_before_the_plan(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.RESOLVE_LOOKS_UP, kafka_proxy.kill_before())
    run = s.run()
    return _retried(run, "resolve", rule.proof())


@row(
    "Airflow",
    "worker killed in resolve after the plan is stored",
    ends="healed",
    made="SIGKILL of the task's process when the plan's object is there; more records arrive before the retry",
)
def killed_after_the_plan(s: Scene) -> str:
    s.produce()
    with when_file(s.store, FIRST_PLAN, lambda _: _kill_and_produce(s, "resolve")) as seen:
        run = s.run()
    if len(s.objects(f"{BATCHES}/*[0-9].json")) != 2:
        raise PromiseBroken(f"more than a plan and a commit: {s.objects(f'{BATCHES}/*[0-9].json')}")
    proof = _retried(run, "resolve", f"{seen.proof()}, killed")
    s.run()  # what came after the plan was frozen
    return proof


def _kill_with_supervisor(process: psutil.Process) -> None:
    supervisor = process.parent()
    assert supervisor is not None
    supervisor.kill()
    process.kill()
    wait_for("both are gone", lambda: not any(_lives(one) for one in (process, supervisor)))


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _kill_and_produce(s: Scene, name: str) -> None:
    task_process(s, name).kill()
    s.produce(50)


@row(
    "Airflow",
    "worker killed in commit before the log has the commit",
    ends="healed",
    made="SIGKILL of the process that looks at the group, before the broker gets that: the reads are verified by then",
)
def killed_before_the_commit(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.COMMIT_LOOKS, kafka_proxy.kill_before())
    run = s.run()
    return _retried(run, "commit", rule.proof())


@row(
    "Airflow",
    "worker killed between commit and the write to the group",
    ends="healed",
    made="SIGKILL of the process that sends the write to the group, before the broker gets it: the log has the commit",
)
def killed_before_the_write(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.MIRROR_WRITES, kafka_proxy.kill_before())
    run = s.run()
    return _retried(run, "commit", rule.proof())


@row(
    "Airflow",
    "worker killed between commit and the write to the group, and never again",
    ends="healed",
    made="as before, and the task has no retries: the next run, which finds nothing new, writes the group",
)
def killed_for_good_before_the_write(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.MIRROR_WRITES, kafka_proxy.kill_before())
    s.start("fault_batch_once").wait("failed")
    at = s.committed()
    s.run()
    if at or len(s.objects(FIRST_PLAN)) != 1:
        raise NotFired(f"the group was at {at}; batches: {s.objects(FIRST_PLAN)}")
    return f"{rule.proof()}; the group had nothing until the next run"


@row(
    "Airflow",
    "worker killed in commit between the write and its answer",
    ends="healed",
    made="SIGKILL of the process when the broker has answered the write, and the answer is not passed on",
    in_every_test_run=True,
)
def killed_before_the_answer(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.MIRROR_WRITES, kafka_proxy.kill_after())
    run = s.run()
    return _retried(run, "commit", rule.proof())


@row(
    "Airflow",
    "worker and its supervisor killed in commit",
    ends="healed",
    made="SIGKILL of the task's process and of its supervisor at the write: nobody reports its end, only the heartbeat "
    "stays away",
)
def lost_with_its_supervisor(s: Scene) -> str:
    s.produce()

    def kill(exchange: kafka_proxy.Exchange) -> None:
        _kill_with_supervisor(exchange.client_process())

    rule = s.arm("killed", moments.MIRROR_WRITES, kill)
    run = s.run()
    return _retried(run, "commit", rule.proof())


@row(
    "Airflow",
    "each task cleared after the run's success",
    ends="healed",
    made="commit, then spark, then resolve cleared with what comes after them; more records arrive in between",
)
def cleared_at_each_step(s: Scene) -> str:
    s.produce()
    run = s.run()
    before = {name: run.task(name).tries for name in ("resolve", "spark", "commit")}
    for name in ("commit", "spark", "resolve"):
        s.produce(20)
        run.clear(name).wait()
    after = {name: run.task(name).tries for name in ("resolve", "spark", "commit")}
    if not all(after[name] > before[name] for name in before):
        raise NotFired(f"tries {before} → {after}")
    if s.rows() != {run.batch: 200}:
        raise PromiseBroken(f"the run's output has changed: {s.rows()}")
    s.run()
    return f"tries {before} → {after}"


@row(
    "Airflow",
    "whole run cleared after success",
    ends="healed",
    made="all tasks of a successful run cleared after a newer run",
)
def whole_run_cleared(s: Scene) -> str:
    s.produce()
    first = s.run()
    s.produce(50)
    s.run()
    tries = first.task("commit").tries
    first.clear_whole().wait()
    again = first.task("commit").tries
    if again <= tries:
        raise NotFired("the commit did not run again")
    return f"commit's try {tries} → {again}"


def _task_lost_in_the_write(s: Scene, stopped: list[psutil.Process]) -> Callable[[object], None]:
    """The task's process and its supervisor are killed, and the driver that they leave behind is stopped.

    The supervisor would end the driver, too; and so does the kernel (SIGHUP), if the driver is stopped already when its
    process group loses the task's process.
    """

    def deed(_: object) -> None:
        stopped.append(driver(s))
        _kill_with_supervisor(task_process(s, "spark"))
        stopped[0].send_signal(signal.SIGSTOP)

    return deed


@row(
    "Airflow",
    "retry while the first try's Spark job still runs",
    ends="healed",
    made="in the middle of the write the task's process and its supervisor are killed and the driver is stopped; "
    "when the retry has begun to read, the driver goes on",
)
def retry_beside_the_first(s: Scene) -> str:
    s.produce()
    stopped: list[psutil.Process] = []
    with when_file(s.output, finished_task(), _task_lost_in_the_write(s, stopped)) as seen:
        run = s.start()
        seen.wait()
        with when_file(s.store, begun(0, 2), lambda _: stopped[0].send_signal(signal.SIGCONT)) as second:
            run.wait()
    _until_they_end(stopped)
    return _retried(run, "spark", f"{seen.proof()}; {second.proof()} and the first driver lived")


def _until_they_end(drivers: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(drivers, timeout=DEADLINE_S)
    if alive:
        raise NotFired(f"drivers that were late still live: {alive}")


def _verified(s: Scene, run: Run) -> None:
    status, said = s.verify(run)
    if status:
        raise PromiseBroken(f"kafka-offsets verify says {status}: {said}")


@row(
    "Airflow",
    "driver of a failed run goes on during the next run's work",
    ends="healed",
    made="in the middle of the write the task's process and its supervisor are killed and the driver is stopped: the "
    "run fails; when the next run's driver has begun the same batch, the late one goes on",
)
def late_driver_during(s: Scene) -> str:
    s.produce()
    stopped: list[psutil.Process] = []
    with when_file(s.output, finished_task(), _task_lost_in_the_write(s, stopped)) as seen:
        s.start("fault_batch_once").wait("failed")
    with when_file(s.store, begun(0, 2), lambda _: stopped[0].send_signal(signal.SIGCONT)) as second:
        run = s.run()
    _until_they_end(stopped)
    _verified(s, run)
    if s.rows() != {run.batch: 200}:
        raise PromiseBroken(f"the output is {s.rows()}")
    return f"{seen.proof()}, it was stopped; {second.proof()}, it went on, and its run had failed"


@row(
    "Airflow",
    "driver of a failed run goes on after the next run's success",
    ends="healed",
    made="as before, and the late driver goes on when the next run has committed the batch",
)
def late_driver_after(s: Scene) -> str:
    s.produce()
    stopped: list[psutil.Process] = []
    with when_file(s.output, finished_task(), _task_lost_in_the_write(s, stopped)) as seen:
        s.start("fault_batch_once").wait("failed")
    run = s.run()
    stopped[0].send_signal(signal.SIGCONT)
    _until_they_end(stopped)
    _verified(s, run)
    return f"{seen.proof()}, it was stopped; it went on when {run.batch[:10]} was committed, and wrote nothing"


@row(
    "Airflow",
    "driver of the first try goes on during a redo",
    ends="healed",
    made="as before, but the task is retried, and its run commits; that run is cleared as a whole, and when its driver "
    "has begun the batch once more, the late one goes on",
)
def late_driver_during_a_redo(s: Scene) -> str:
    s.produce()
    stopped: list[psutil.Process] = []
    with when_file(s.output, finished_task(), _task_lost_in_the_write(s, stopped)) as seen:
        run = s.start()
        seen.wait()
        run.wait()
    with when_file(s.store, begun(0, 3), lambda _: stopped[0].send_signal(signal.SIGCONT)) as third:
        run.clear_whole()
        third.wait()
        run.wait()
    _until_they_end(stopped)
    _verified(s, run)
    if s.rows() != {run.batch: 200}:
        raise PromiseBroken(f"the output is {s.rows()}")
    tries = run.task("spark").tries
    return (
        f"{seen.proof()}, it was stopped; {third.proof()}, it went on; spark succeeded at try {tries}, and was verified"
    )


@row(
    "Airflow",
    "late driver of a sink that does not look",
    ends="healed",
    made="a job with a sink of its own, Spark's plain overwrite; the first try's driver goes on when the run has "
    "committed: its files arrive in the verified output; it finds that it is late, and the output does not count as "
    "verified any more; the Spark task is cleared",
)
def late_driver_of_a_plain_sink(s: Scene) -> str:
    s.produce()
    s.deploy("overwrites.py")
    stopped: list[psutil.Process] = []
    in_the_write = "kafka_batch=*/kafka_split=*/_temporary/0/task_*/part-*.parquet"
    with when_file(s.output, in_the_write, _task_lost_in_the_write(s, stopped)) as seen:
        run = s.start()
        seen.wait()
        run.wait()
    stopped[0].send_signal(signal.SIGCONT)
    _until_they_end(stopped)
    status, said = s.verify(run)
    if status != 1 or "began and has not reported" not in said:
        raise PromiseBroken(f"kafka-offsets verify says {status}: {said}")
    twice = len(s.numbers()) - s.produced
    run.clear("spark").wait()
    _verified(s, run)
    return f"{seen.proof()}; {twice} records were there twice; kafka-offsets verify refused the output"


@row(
    "Airflow",
    "scheduler restarted during the run",
    ends="healed",
    made="SIGKILL of the scheduler with all that it has started, in the middle of Spark; another is started",
)
def scheduler_restarted(s: Scene) -> str:
    s.produce()

    def restart(_: object) -> None:
        pid = s.airflow.kill_part("scheduler")
        assert not psutil.pid_exists(pid)
        s.airflow.start_part("scheduler")

    with when_file(s.store, begun(), restart) as seen:
        run = s.run()
    return _retried(run, "spark", f"{seen.proof()}, the scheduler was killed")


@row(
    "Airflow",
    "two runs at once",
    ends="healed",
    made="a second run is started, with more records, while the first one's driver hangs (SIGSTOP) before its read; it "
    "goes on when the second one waits",
)
def two_runs_at_once(s: Scene) -> str:
    first, second = _one_waits_for_the_other(s)
    driver(s).send_signal(signal.SIGCONT)
    first.wait()
    second.wait()
    if s.rows() != {first.batch: 200, second.batch: 50}:
        raise PromiseBroken(f"each run reads its own records: {s.rows()}")
    return "the second run was deferred, and named the first; it did the next batch at its first try"


@row(
    "Airflow",
    "two runs at once, of which the first dies",
    ends="healed",
    made="as before, and the first run is marked as failed",
)
def the_first_of_two_dies(s: Scene) -> str:
    first, second = _one_waits_for_the_other(s)
    late = driver(s)
    s.airflow.mark_run(first.dag_id, first.run_id, "failed")
    second.wait()
    with suppress(psutil.NoSuchProcess):
        late.send_signal(signal.SIGCONT)
    _until_they_end([late])
    _verified(s, second)
    if (first.batch, s.rows()) != (second.batch, {second.batch: 200}):
        raise PromiseBroken(f"the second run did {second.batch}, the first {first.batch}: {s.rows()}")
    s.run()
    return "the second run waited until the first was marked as failed, and did the same batch"


def _one_waits_for_the_other(s: Scene) -> tuple[Run, Run]:
    s.produce()
    with when_file(s.store, begun(), lambda _: driver(s).send_signal(signal.SIGSTOP)) as seen:
        first = s.start()
        seen.wait()
    s.produce(50)
    second = s.start()
    second.wait_for_task("resolve", lambda task: task.state == "deferred")
    said = second.log("orders.resolve", 1)
    if "is being done by" not in said or first.run_id not in said:
        raise NotFired(f"the second run does not say for whom it waits: {said[-2000:]}")
    return first, second


@row(
    "Airflow",
    "check fails after the write, and the next run does the batch again",
    ends="healed",
    made="a task between Spark and the commit fails; more records arrive; the next run",
)
def check_fails(s: Scene) -> str:
    s.produce()
    first = s.start("fault_batch_checked", reject=True).wait("failed")
    written, group = s.rows(), s.committed()
    s.produce(50)
    second = s.run("fault_batch_checked")
    if (first.batch, s.rows()) != (second.batch, {first.batch: 200}):
        raise PromiseBroken(f"the next run did {second.batch}, not {first.batch}: {s.rows()}")
    if written != {first.batch: 200} or group:
        raise NotFired(f"the failed run wrote {written} and committed {group}")
    s.run("fault_batch_checked")
    return "the failed run had written 200 records; after the next one there were 200 in the output folder"


@row(
    "Airflow",
    "two runs fail in a row",
    ends="healed",
    made="a check fails after the write of one run, and again after the next one's; then one succeeds",
)
def two_fail(s: Scene) -> str:
    s.produce()
    failed = []
    for _ in range(2):
        failed.append(s.start("fault_batch_checked", reject=True).wait("failed"))
    written = s.rows()
    third = s.run("fault_batch_checked")
    batches = {run.batch for run in (*failed, third)}
    if len(batches) != 1 or s.rows() != {third.batch: 200} or s.rows() != written:
        raise PromiseBroken(f"the runs did {batches}; {written}, then {s.rows()}")
    return f"both had written, and there were {sum(written.values())} records in the output folder"


@row(
    "Airflow",
    "failed run cleared while, and after, another does its batch",
    ends="healed",
    made="a run fails in Spark; the next one takes the batch, and its driver hangs (SIGSTOP); the failed run is "
    "cleared; the driver goes on; when both have ended, the failed run is cleared once more",
)
def cleared_beside_another(s: Scene) -> str:
    s.produce()
    s.deploy("fails.py")
    old = s.start("fault_batch_once").wait("failed")
    s.deploy_real()
    with when_file(s.store, begun(), lambda _: driver(s).send_signal(signal.SIGSTOP)) as seen:
        newer = s.start()
        seen.wait()
    old.clear_whole()
    old.wait_for_task("resolve", lambda task: task.state == "deferred")
    driver(s).send_signal(signal.SIGCONT)
    newer.wait()
    old.wait()
    old.clear_whole().wait()
    said = old.log("orders.resolve", old.task("resolve").tries)
    if "was done by" not in said or newer.run_id not in said:
        raise NotFired(f"the cleared run does not say who did its batch: {said[-2000:]}")
    if s.rows() != {newer.batch: 200} or s.objects(begun(0, 2)):
        raise PromiseBroken(f"{s.rows()}, attempts {s.objects(begun(0, 2))}")
    return "cleared beside the other run it waited; both times it left the batch, which the other had committed"


@row(
    "Airflow",
    "only the Spark task cleared of a failed run whose batch another has done",
    ends="healed",
    made="a run fails in Spark; the next one does its batch; then the first one's Spark task is cleared, and not its "
    "resolve",
)
def spark_cleared_of_a_passed_run(s: Scene) -> str:
    s.produce()
    s.deploy("fails.py")
    old = s.start("fault_batch_once").wait("failed")
    s.deploy_real()
    s.run()
    before = s.rows()
    old.clear("spark").wait()
    if not s.objects(begun(0, 2)) or s.rows() != before:
        raise NotFired(f"attempts {s.objects(begun(0, 2))}: {before} → {s.rows()}")
    return "it wrote the same batch once more, into the same place"


@row(
    "Airflow",
    "only the Spark task cleared of a committed run whose records are gone",
    ends="refused",
    made="DeleteRecords of all that a committed run has read, as retention does it; then its Spark task is cleared",
    cause="DataLoss",
    remedy="clear the run from its resolve task on, which leaves the batch as it is",
)
def spark_cleared_after_retention(s: Scene) -> str:
    s.produce()
    run = s.run("fault_batch_once")
    s.broker.delete_records({(s.topic, 0): 100, (s.topic, 1): 100})
    run.look().clear("spark")
    s.refused(run, "spark", "DataLoss", "Nothing was written: its output stays as it is")
    if s.rows() != {run.batch: 200}:
        raise PromiseBroken(f"the output is {s.rows()}")
    _verified(s, run)
    run.clear("resolve").wait()
    return "Kafka had none of the 200 records, and the output folder had all of them"


@row(
    "Airflow",
    "redo of a committed batch that writes half",
    ends="refused",
    made="a committed run is cleared as a whole, with a job that keeps the first half of its records",
    cause="ReadNotVerified",
    remedy="deploy the right job, clear the Spark task",
)
def redo_writes_half(s: Scene) -> str:
    s.produce()
    run = s.run("fault_batch_once")
    s.deploy("reads_half.py")
    run.look().clear_whole()
    s.refused(run, "commit", "ReadNotVerified", f"may not be whole for key {run.batch}")
    written, status = sum(s.rows().values()), s.verify(run)[0]
    if written != 100 or status != 1:
        raise NotFired(f"{written} records were there, and kafka-offsets verify said {status}")
    s.deploy_real()
    run.clear("spark").wait()
    _verified(s, run)
    return f"{written} of 200 committed records were left, and kafka-offsets verify said so"


@row(
    "Airflow",
    "record that can never pass",
    ends="refused",
    made="a job fails at one record; two runs fail at it",
    cause="cannot parse 34",
    remedy="kafka-offsets skip past that record; the next run does what is left of the batch",
)
def never_passes(s: Scene) -> str:
    s.produce()
    s.deploy("cannot_take_34.py")
    failed = []
    for _ in range(2):
        failed.append(s.start("fault_batch_once"))
        s.refused(failed[-1], "spark", "cannot parse 34")
    if failed[0].batch != failed[1].batch or s.rows():
        raise PromiseBroken(f"the runs did {[run.batch for run in failed]}: {s.rows()}")
    words = ["--batch", failed[0].batch, "--past", f"{s.topic}-0:17", "--reason", "34 is no order", "--execute"]
    status, said = s.command("skip", *words)
    if status or "up to 18 records" not in said:
        raise PromiseBroken(f"kafka-offsets skip says {status}: {said}")
    s.gone = set(range(0, 36, 2))  # partition 0 has the even ones
    s.run("fault_batch_once")
    return "two runs failed at it; 18 records were skipped by order, and counted as such"


@row(
    "Airflow",
    "record that can never pass, left out alone",
    ends="refused",
    made="a job fails at one record; a run fails at it, and one record is left out",
    cause="cannot parse 34",
    remedy="kafka-offsets skip --only that record; the next run reads all others",
)
def never_passes_alone(s: Scene) -> str:
    s.produce()
    s.deploy("cannot_take_34.py")
    failed = s.start("fault_batch_once")
    s.refused(failed, "spark", "cannot parse 34")
    words = ["--batch", failed.batch, "--only", f"{s.topic}-0:17", "--reason", "34 is no order", "--execute"]
    status, said = s.command("skip", *words)
    if status or "up to 1 records" not in said:
        raise PromiseBroken(f"kafka-offsets skip says {status}: {said}")
    s.gone = {34}  # partition 0 has the even ones
    run = s.run("fault_batch_once")
    if run.batch != failed.batch or not (s.objects(report(0, 2)) and s.objects(report(1))):
        raise PromiseBroken(f"{run.batch} was done by {s.objects(report(0, 2))} and {s.objects(report(1))}")
    status, said = s.command("audit", "--output", "json")
    found = [one for one in json.loads(said)["findings"] if one["finding"] == "skipped"]
    if status or [(one["offsets"], one["decision"][-14:]) for one in found] != [(1, "34 is no order")]:
        raise PromiseBroken(f"kafka-offsets audit says {status}: {said}")
    return "two Spark jobs read the 199 others; the record was skipped by order, and counted as such"


@row(
    "Airflow",
    "corrected code, and three days done again by a reprocessing backfill",
    ends="healed",
    made="three daily runs of a job with a bug in its values; the corrected one is deployed, and a backfill with "
    "--reprocess-behavior completed goes over the three days",
    scene={"topic_config": {"retention.ms": "-1"}},
)
def three_days_again(s: Scene) -> str:
    today = datetime.fromisoformat(s.ground.environment["FAULTS_TODAY"])
    begin = today - timedelta(days=3)
    s.produce(180, timestamp_ms=lambda n: int(begin.timestamp() * 1000) + n * 24 * 60_000)  # 60 a day
    s.deploy("writes_wrong_values.py")

    def succeeded(attempts: int) -> bool:
        reports = s.objects(report(0, attempts))
        return len(reports) == 3 and list(s.airflow.runs("fault_daily").values()) == ["success"] * 3

    with s.scheduled("fault_daily"):
        s.wait_for("three days are done", lambda: succeeded(1))
        wrong = s.numbers()
        s.deploy_real()
        again = {"reprocess_behavior": "completed", "max_active_runs": 1}
        s.airflow.create_backfill("fault_daily", begin, today - timedelta(days=1), **again)
        s.wait_for("three days are done again", lambda: succeeded(2))
    if sorted(wrong) != [1_000_000 + n for n in range(180)]:
        raise NotFired(f"the wrong job wrote {wrong[:3]}…")
    if sorted(s.rows().values()) != [60, 60, 60]:
        raise PromiseBroken(f"the output is {s.rows()}")
    return "180 wrong values were replaced by 180 right ones, in the places of the three batches"


@row(
    "Airflow",
    "metadata database restored from a backup of yesterday",
    ends="healed",
    made="all parts of Airflow are killed, and its database is the one from before the second run; then a run of "
    "the same id is made, as a schedule does that has forgotten it",
)
def older_database(s: Scene) -> str:
    s.produce()
    s.run()
    postgres, database, backup = s.ground.postgres, s.airflow.database, s.ground.postgres.new_database()
    s.airflow.change_while_down(lambda: postgres.copy_database(database, backup))
    s.produce(50)
    forgotten = s.run()
    before = s.rows()
    s.airflow.change_while_down(lambda: postgres.copy_database(backup, database))
    if forgotten.run_id in s.airflow.runs(forgotten.dag_id):
        raise NotFired("Airflow still knows the run")
    s.runs.pop()
    again = s.run()
    if (again.run_id, again.batch, s.rows()) != (forgotten.run_id, forgotten.batch, before):
        raise PromiseBroken(f"{again.run_id} did {again.batch}, not {forgotten.batch}: {before} → {s.rows()}")
    return f"Airflow had forgotten {forgotten.run_id[:5]}, which did its own batch once more"


@row(
    "Airflow",
    "backfill beside the schedule",
    ends="refused",
    made="while a run is in Spark, an operator starts a backfill of the same DAG over two past hours",
    cause="A backfill run does its own batch again, or reads a window",
    remedy="backfill a DAG of windows (`startup_mode` and `bounded_mode` `timestamp`) into an output of its own",
)
def backfill_beside_the_schedule(s: Scene) -> str:
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=4)
    last = begin + timedelta(hours=1)
    s.produce(120, timestamp_ms=lambda n: int(begin.timestamp() * 1000) + n * 60_000)  # each hour has 60 of them
    with s.scheduled("fault_hourly"):
        live = s.only_run("fault_hourly")
        s.wait_for("it reads", lambda: bool(s.objects(begun())))
        backfilled = s.backfill("fault_hourly", begin, last)
        states = [s.airflow.wait_for_run(run.dag_id, run.run_id) for run in backfilled]
        live.wait()
    for run in backfilled:
        s.refused(run.look(), "resolve", "A backfill run does its own batch again, or reads a window", "timestamp")
    with s.scheduled("fault_hourly_windows"):
        windows = s.backfill("fault_hourly_windows", begin, last, output=str(s.folder / "windows"))
        for run in windows:
            run.wait()
    by_window = sorted(rows_by_batch(s.folder / "windows").values())
    if by_window != [60, 60]:
        raise AssertionError(f"the windows hold {by_window}")
    return f"beside it {len(states)} backfill runs, {states}; then {len(windows)} windows of {by_window} records"
