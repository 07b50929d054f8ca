"""What Airflow does to a run, and what is done to Airflow: killed workers, clears, late tries, a new scheduler."""

import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psutil

from testbed import kafka_proxy
from testbed.checks import rows_by_run
from testbed.hanging_file import HangingFile
from testbed.kafka_proxy import NotFired
from testbed.topics import wait_for
from tests.faults import moments
from tests.faults.rows import row
from tests.faults.scene import PromiseBroken, Run, Scene
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
    with when_file(s.store, "plans/*/*/*/*/plan.1.json", lambda _: _kill_and_produce(s, "resolve")) as seen:
        run = s.run()
    if len(s.objects("plans/*/*/*/*/plan.*.json")) != 1:
        raise AssertionError("the retry made a second plan")
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
    "worker killed in commit before the write",
    ends="healed",
    made="SIGKILL of the process that sends the write, before the broker gets it: its offsets stay pending",
)
def killed_before_the_write(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.COMMIT_WRITE, kafka_proxy.kill_before())
    run = s.run()
    return _retried(run, "commit", rule.proof())


@row(
    "Airflow",
    "worker killed in commit before its offsets are sent",
    ends="healed",
    made="SIGKILL of the process that sends the offsets, before the broker gets them: a fence that nobody closes",
)
def killed_in_the_fence(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.COMMIT_SENDS, kafka_proxy.kill_before())
    run = s.run()
    return _retried(run, "commit", rule.proof())


@row(
    "Airflow",
    "worker killed in commit between the write and its answer",
    ends="healed",
    made="SIGKILL of the process when the broker has answered the write, and the answer is not passed on",
    in_every_test_run=True,
)
def killed_before_the_answer(s: Scene) -> str:
    s.produce()
    rule = s.arm("killed", moments.COMMIT_WRITE, kafka_proxy.kill_after())
    run = s.run()
    return _retried(run, "commit", rule.proof())


@row(
    "Airflow",
    "worker killed in commit after the group and before the checkpoint",
    ends="healed",
    made="from the write's answer on, the disk hangs at the last checkpoint (a FIFO in its place); SIGKILL of the "
    "process that waits there; the file is put back",
)
def killed_before_the_checkpoint(s: Scene) -> str:
    s.produce()
    hanging: list[HangingFile] = []

    def hang() -> None:
        hanging.append(HangingFile(s.objects("checkpoints/*/*/checkpoint.*.json")[-1]))
        hanging[0].hang()

    rule = s.arm("the disk hangs", moments.COMMIT_WRITE, kafka_proxy.after(hang))
    run = s.start()
    rule.wait()
    reader = hanging[0].wait_for_reader()
    at = sorted(s.committed().values())
    receipts = len(s.objects("plans/*/*/*/*/receipt.*.json"))
    checkpoints = len(s.objects("checkpoints/*/*/checkpoint.*.json"))
    reader.kill()
    hanging[0].give_back()
    run.wait()
    proof = f"killed with the group at {at}, {checkpoints} checkpoint and {receipts} receipts"
    proof = _retried(run, "commit", proof)
    s.produce(50)
    s.run()
    return proof


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

    rule = s.arm("killed", moments.COMMIT_WRITE, kill)
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
    if s.rows() != {run.run_id: 200}:
        raise AssertionError(f"the run's output has changed: {s.rows()}")
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


@row(
    "Airflow",
    "old failed run cleared after newer ones",
    ends="refused",
    made="a run fails in Spark; a newer one reads its records; the old one is cleared",
    cause="PlanSuperseded",
    remedy="mark the old run as failed and leave it",
)
def old_run_cleared(s: Scene) -> str:
    s.produce()
    s.deploy("fails.py")
    old = s.start("fault_batch_once").wait("failed")
    s.deploy_real()
    newer = s.run()
    old.rows_before, old.group_before = s.rows(), s.committed()
    old.clear_whole()
    s.refused(old, "resolve", "PlanSuperseded", newer.run_id, "Mark this run as failed or successful")
    s.produce(50)
    s.run()
    return f"cleared after {newer.run_id.partition('-orders')[0]} had read its records"


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


IN_THE_WRITE = "run=*/split=*/_temporary/0/task_*/part-*.parquet"


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
    with when_file(s.output, IN_THE_WRITE, _task_lost_in_the_write(s, stopped)) as seen:
        run = s.start()
        seen.wait()
        with when_file(s.store, "reads/*/0/begun.2.json", lambda _: stopped[0].send_signal(signal.SIGCONT)) as second:
            run.wait()
    proof = _retried(run, "spark", f"{seen.proof()}; {second.proof()} and the first driver lived")
    with suppress(psutil.Error):
        stopped[0].kill()
    return proof


@row(
    "Airflow",
    "first try's Spark job goes on after the run's success",
    ends="healed",
    made="as before, and the first driver goes on when the run has committed: its files arrive in the verified output; "
    "it finds that it is late, and the output does not count as verified any more; the Spark task is cleared",
)
def late_driver(s: Scene) -> str:
    s.produce()
    stopped: list[psutil.Process] = []
    with when_file(s.output, IN_THE_WRITE, _task_lost_in_the_write(s, stopped)) as seen:
        run = s.start()
        seen.wait()
        run.wait()
    stopped[0].send_signal(signal.SIGCONT)
    psutil.wait_procs(stopped, timeout=120)
    status, said = s.verify(run)
    if status != 1 or "began and has not reported" not in said:
        raise PromiseBroken(f"kafka-offsets verify says {status}: {said}")
    twice = len(s.numbers()) - s.produced
    run.clear("spark").wait()
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

    with when_file(s.store, "reads/*/0/begun.1.json", restart) as seen:
        run = s.run()
    return _retried(run, "spark", f"{seen.proof()}, the scheduler was killed")


@row(
    "Airflow",
    "two runs at once",
    ends="healed",
    made="a second run is started, with more records, while the first one is in Spark; its retries do the waiting",
)
def two_runs_at_once(s: Scene) -> str:
    s.produce()
    first = s.start()
    s.wait_for("the first run reads", lambda: bool(s.objects("reads/*/0/begun.1.json")))
    s.produce(50)
    second = s.start("fault_batch_patient")
    first.wait()
    second.wait()
    said = second.log("orders.resolve", 1)
    if "OverlappingRun" not in said or first.run_id not in said:
        raise NotFired(f"the second run was not held up: {said[-2000:]}")
    if s.rows() != {first.run_id: 200, second.run_id: 50}:
        raise AssertionError(f"each run reads its own records: {s.rows()}")
    return "OverlappingRun at try 1 named the first run; resolve succeeded at a later try"


@row(
    "Airflow",
    "two runs at once, of which the first dies",
    ends="healed",
    made="a second run waits for one whose driver hangs (SIGSTOP) before its read, and which is then marked as failed",
)
def the_first_of_two_dies(s: Scene) -> str:
    s.produce()
    stop = lambda _: driver(s).send_signal(signal.SIGSTOP)  # noqa: E731
    with when_file(s.store, "reads/*/0/begun.1.json", stop) as seen:
        first = s.start()
        seen.wait()
    second = s.start("fault_batch_patient")
    waiting = second.wait_for_task("resolve", lambda task: task.tries > 1)
    s.airflow.mark_run(first.dag_id, first.run_id, "failed")
    second.wait()
    if s.rows() != {second.run_id: 200}:
        raise AssertionError(f"the dead run left an output: {s.rows()}")
    if waiting.state == "success" or second.task("resolve").tries <= 1:
        raise NotFired(f"the second run did not wait: {waiting}")
    return "the second run waited until the first was marked as failed"


@row(
    "Airflow",
    "backfill beside the schedule",
    ends="refused",
    made="while a run is in Spark, an operator starts a backfill of the same DAG over two past hours",
    cause="InvalidRequest",
    remedy="backfill a DAG of windows (`startup_mode` and `bounded_mode` `timestamp`) into an output of its own",
)
def backfill_beside_the_schedule(s: Scene) -> str:
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=4)
    last = begin + timedelta(hours=1)
    s.produce(120, timestamp_ms=lambda n: int(begin.timestamp() * 1000) + n * 60_000)  # each hour has 60 of them
    with s.scheduled("fault_hourly"):
        live = s.only_run("fault_hourly")
        s.wait_for("it reads", lambda: bool(s.objects("reads/*/0/begun.1.json")))
        backfilled = s.backfill("fault_hourly", begin, last)
        states = [s.airflow.wait_for_run(run.dag_id, run.run_id) for run in backfilled]
        live.wait()
    for run in backfilled:
        run.group_before, run.rows_before = s.committed(), s.rows()
        s.refused(run, "resolve", "backfill", "timestamp")
    with s.scheduled("fault_hourly_windows"):
        windows = s.backfill("fault_hourly_windows", begin, last, output=str(s.folder / "windows"))
        for run in windows:
            run.wait()
    by_window = sorted(rows_by_run(s.folder / "windows").values())
    if by_window != [60, 60]:
        raise AssertionError(f"the windows hold {by_window}")
    return f"beside it {len(states)} backfill runs, {states}; then {len(windows)} windows of {by_window} records"
