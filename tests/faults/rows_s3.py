"""What happens to a work store on S3: away for a while, slow, without rights, or changed by hand and by rules.

Airflow reaches it by a connection, the driver by Spark's s3a; both through a proxy.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from testbed.kafka_proxy import NotFired
from tests.faults.rows import row
from tests.faults.scene import BATCHES, Run, Scene

ON_S3 = {"on_s3": True}
STEPS = {"plan": "/1.json", "run": "/runs/", "begun": ".begun.json", "report": ".report.json", "commit": "/2.json"}


def _answer(s: Scene, status: int, meant: Callable[[str, str], bool]) -> None:
    """From now on every request that is meant is answered by this status."""
    s.ground.s3.meant = lambda method, path: s.topic in path and meant(method, path)
    s.ground.s3.faults = [status] * 10_000


def _played(s: Scene) -> int:
    """How many requests were refused; then all is as it should be again."""
    count = len(s.ground.s3.done)
    s.ground.s3.disarm()
    if not count:
        raise NotFired("no request was refused")
    return count


@row(
    "Stores",
    "S3 unreachable for a while at each step",
    ends="healed",
    made="the first three requests for plan, run, begun, report and commit are each answered by 503",
    scene=ON_S3,
)
def away_at_each_step(s: Scene) -> str:
    seen: Counter[str] = Counter()

    def is_one_of_the_first(method: str, path: str) -> bool:
        step = next((step for step, part in STEPS.items() if part in path), None)
        seen[step or ""] += 1
        return step is not None and seen[step] <= 3

    s.produce()
    _answer(s, 503, is_one_of_the_first)
    run = s.run()
    count = _played(s)
    if {step: min(seen[step], 3) for step in STEPS} != dict.fromkeys(STEPS, 3):
        raise NotFired(f"requests: {dict(seen)}")
    return f"{count} answers were 503; Spark at try {run.task('spark').tries}, commit at try {run.task('commit').tries}"


@row(
    "Stores",
    "S3: the right to write is taken away before the commit",
    ends="refused",
    made="the creation of the commit is answered by 403",
    cause="StoreUnavailable",
    remedy="give the right back, clear the commit task",
    scene=ON_S3,
)
def no_right_to_commit(s: Scene) -> str:
    s.produce()
    _answer(s, 403, lambda method, path: method == "PUT" and "/2.json" in path)
    run = s.start("fault_batch_once")
    s.refused(run, "commit", "StoreUnavailable", "Airflow connection 'lake'", "the right to read, write and list")
    count = _played(s)
    run.clear("commit").wait()
    return f"{count} requests were answered by 403"


@row(
    "Stores",
    "S3 is read-only after the commit",
    ends="refused",
    made="once the log has the commit, every write is answered by 403: that run ends well, and the next is refused",
    cause="StoreUnavailable",
    remedy="give the right back, clear the resolve task",
    scene=ON_S3,
)
def read_only_after_the_commit(s: Scene) -> str:
    s.produce()
    committed: list[str] = []

    def is_later(method: str, path: str) -> bool:
        if method == "PUT" and "/2.json" in path and not committed:
            committed.append(path)
            return False
        return method == "PUT" and bool(committed)

    _answer(s, 403, is_later)
    s.run("fault_batch_once")
    s.produce(50)
    run = s.start("fault_batch_once")
    s.refused(run, "resolve", "StoreUnavailable", "the right to read, write and list")
    count = _played(s)
    run.clear("resolve").wait()
    return f"{count} requests were answered by 403"


@row(
    "Stores",
    "S3 is slow",
    ends="healed",
    made="each request takes a second longer",
    scene=ON_S3,
)
def slow(s: Scene) -> str:
    s.produce()
    before = len(s.ground.s3.seen)
    s.ground.s3.delay_s = 1.0
    s.run("fault_batch_once")
    s.ground.s3.disarm()
    count = sum(s.topic in request.path for request in s.ground.s3.seen[before:])
    if not count:
        raise NotFired("nothing was asked")
    return f"{count} requests took a second more"


def _changed_by_hand(s: Scene, number: int, change: Callable[[Path, bytes], None], *words: str) -> Run:
    """Change an entry of the newest batch's log, see the next run refused, and restore it."""
    s.produce()
    s.run("fault_batch_once")
    entry = s.objects(f"{BATCHES}/{number}.json")[-1]
    whole = entry.read_bytes()
    change(entry, whole)
    s.produce(50)
    run = s.start("fault_batch_once")
    s.refused(run, "wait_for_partitions", "StoreDamaged", f"0000000001/{number}.json", *words)
    entry.write_bytes(whole)
    return run.clear("wait_for_partitions").wait()


@row(
    "Stores",
    "S3: the newest plan is deleted by hand",
    ends="refused",
    made="1.json of the newest batch is deleted between two runs",
    cause="StoreDamaged",
    remedy="restore the object that is named, clear the run",
    scene=ON_S3,
)
def deleted(s: Scene) -> str:
    _changed_by_hand(s, 1, lambda entry, _: entry.unlink(), "is not there", "a lifecycle rule")
    return "1.json of batch 1 was deleted"


@row(
    "Stores",
    "S3: the newest commit is replaced by hand",
    ends="refused",
    made="an offset in 2.json of the newest batch is edited between two runs",
    cause="StoreDamaged",
    remedy="restore the object that is named, clear the run",
    scene=ON_S3,
)
def replaced(s: Scene) -> str:
    edited: list[tuple[bytes, bytes]] = []

    def edit(entry: Path, whole: bytes) -> None:
        edited.append((whole, whole.replace(b"[100,100]", b"[100,700]")))
        entry.write_bytes(edited[0][1])

    _changed_by_hand(s, 2, edit, "it is torn, or was altered")
    if edited[0][0] == edited[0][1]:
        raise NotFired(f"there was nothing to edit in {edited[0][0].decode()}")
    return "the position in 2.json of batch 1 said 700 for 100"


@row(
    "Stores",
    "S3: a lifecycle rule removes objects under the log",
    ends="healed",
    made="after two runs all that is older than the newest batch is deleted, which runs had which batch too",
    scene=ON_S3,
)
def expired(s: Scene) -> str:
    s.produce()
    s.run("fault_batch_once")
    old = s.objects("pipelines/**/*.json") + s.objects("outputs/**/*.json")
    s.produce(50)
    s.run("fault_batch_once")
    _keep_copy(s)
    for name in old:
        name.unlink()
    s.produce(30)
    run = s.run("fault_batch_once")
    if not run.batch.startswith("0000000003-"):
        raise NotFired(f"the batch after that is {run.batch}")
    return f"{len(old)} objects were removed, and the next batch was number 3"


def _keep_copy(s: Scene) -> None:
    """What the watcher looks up later, with its times."""
    copy = s.folder / "store.copy"
    for found in s.objects("pipelines/**/*.json"):
        file = copy / found.path.removeprefix(s.store.path).lstrip("/")  # type: ignore[attr-defined]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(found.read_bytes())
        os.utime(file, (found.stat().st_mtime,) * 2)
    s.watcher.former_stores.append(copy)
