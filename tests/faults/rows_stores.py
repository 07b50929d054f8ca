"""What happens to the work store: out of reach, full, with an object that was not written to its end."""

import resource
from pathlib import Path

import psutil

from testbed import kafka_proxy
from testbed.kafka_proxy import NotFired
from tests.faults import moments
from tests.faults.rows import row
from tests.faults.scene import Scene
from tests.faults.spying import when_file


def _out_of_reach(s: Scene) -> None:
    """A file in the place of the folder: what a mount that is gone leaves."""
    s.store.rename(s.store.with_name("store.kept"))
    s.store.touch()


def _back(s: Scene) -> None:
    s.store.unlink()
    s.store.with_name("store.kept").rename(s.store)


@row(
    "Stores",
    "work store unreachable before the commit",
    ends="refused",
    made="a file in the place of the folder as soon as the report is there; put back after the run has failed",
    cause="StoreUnavailable",
    remedy="put the work store back, clear the commit task",
    in_every_test_run=True,
)
def unreachable_before_the_commit(s: Scene) -> str:
    s.produce()
    with when_file(s.store, "reads/*/0/report.1.json", lambda _: _out_of_reach(s)) as seen:
        run = s.start()
        seen.wait()
        s.refused(run, "commit", "StoreUnavailable", "Check that the work store exists")
    _back(s)
    run.clear("commit").wait()
    return f"{seen.proof()}, the folder went away"


@row(
    "Stores",
    "work store unreachable after the group is written",
    ends="healed",
    made="a file in the place of the folder from the write's answer on, so that no checkpoint and no receipt can be "
    "written; put back when the first try has failed",
)
def unreachable_after_the_write(s: Scene) -> str:
    s.produce()
    rule = s.arm("the folder went away", moments.COMMIT_WRITE, kafka_proxy.after(lambda: _out_of_reach(s)))
    run = s.start()
    rule.wait()
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


@row(
    "Stores",
    "half-written plan",
    ends="healed",
    made="half of a plan's object is in the place of the run's plan before resolve: a worker died while it wrote",
)
def half_written_plan(s: Scene) -> str:
    s.produce()
    first = s.run()
    whole = s.objects(f"plans/*/{first.run_id}/*/*/plan.1.json")[0]
    half = Path(str(whole).replace(first.run_id, first.run_id.replace("run-1", "run-2")))
    half.parent.mkdir(parents=True)
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    s.produce(50)
    second = s.run()
    plans = [plan.name for plan in s.objects(f"plans/*/{second.run_id}/*/*/plan.*.json")]
    if plans != ["plan.1.json", "plan.2.json"]:
        raise NotFired(f"the run has {plans}")
    return f"the run's plans are {', '.join(plans)}, of which the first is half of one"


@row(
    "Stores",
    "half-written checkpoint",
    ends="healed",
    made="the newest checkpoint's object is cut to half between two runs",
)
def half_written_checkpoint(s: Scene) -> str:
    s.produce()
    s.run()
    newest = s.objects("checkpoints/*/*/checkpoint.*.json")[-1]
    text = newest.read_bytes()
    newest.write_bytes(text[: len(text) // 2])
    s.produce(50)
    run = s.run()
    said = run.log("orders.resolve", run.task("resolve").tries)
    if "was never written completely" not in said:
        raise NotFired(f"the resolve task does not say so: {said[-2000:]}")
    return f"{newest.name} was cut to {newest.stat().st_size} of {len(text)} bytes, and resolve said so"
