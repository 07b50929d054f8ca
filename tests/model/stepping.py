"""A store and a cluster that stop before each verb, so that straight code is interleaved with other straight code.

Each program runs in a greenlet. Before a verb it gives control back to the world, which then lets any program go on, or
throws this one away: a crash between two verbs. A program that goes on after Airflow gave it up is a zombie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster, Log

UNIT_MS, T0 = 60_000, 1_800_000_000_000


class Program:
    """A task's try, a Spark driver, or a person's command.

    :ivar run: the run whose task it is; a person has none.
    :ivar is_awaited: whether Airflow waits for it; not for a zombie.
    :ivar verb: before which it has stopped.
    :ivar speed: how likely it goes on when it is its turn.
    :ivar began: of each partition, its log start, its end and what the group held when the program began.
    :ivar group: what the group held when it last looked.
    :ivar job, kafka: of a resolve: what is deployed. ``created``: how many objects it has written.
    :ivar log_starts: of each partition, the log start and the time of the first record, when it asked for a time.
    """

    def __init__(self, task: str, call: Callable[[], Any], run: str | None = None, speed: float = 1.0) -> None:
        self.task, self.run, self.speed, self.is_awaited = task, run, speed, True
        self.result: Any = None
        self.error: Exception | None = None
        self.began: dict[Any, Any] = {}
        self.group: Mapping[TopicPartition, CommittedOffset] = {}
        self.log_starts: dict[TopicPartition, tuple[int, int | None]] = {}
        self.verb, self.verbs = "", 0
        self.created = 0
        self.job: Any = None
        self.kafka: Any = None
        self.greenlet = greenlet(self._run)
        self.greenlet.program = self
        self._call = call

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:
            self.error = error

    def step(self) -> bool:
        """Go on to the next verb. Returns whether it has ended."""
        self.greenlet.switch()
        return self.greenlet.dead

    def crash(self) -> None:
        self.greenlet.throw(GreenletExit)


def program() -> Program | None:
    """The program that runs; ``None``: the world itself, whose verbs do not stop."""
    return getattr(getcurrent(), "program", None)


def pause(verb: str = "") -> None:
    """The program stops before ``verb``."""
    if (me := program()) is not None:
        me.verb, me.verbs = verb, me.verbs + 1
        if me.verbs > 800:
            raise RecursionError("it goes round in circles")
        me.greenlet.parent.switch()


class SteppingStore(MemoryStore):
    """
    :ivar on_create: is told of each new object.
    :ivar bodies: all that were ever written, also what ``clean`` has removed since; ``removed``: the names.
    """

    def __init__(self, on_create: Callable[[str, bytes], None]) -> None:
        super().__init__()
        self.on_create = on_create
        self.bodies: dict[str, bytes] = {}
        self.removed: set[str] = set()

    @property
    def view(self) -> MemoryStore:
        """The same objects for the world itself, whose looks cost nothing."""
        view = MemoryStore()
        view.objects = self.objects
        return view

    def create(self, name: str, data: bytes) -> bool:
        pause(f"create {name}")
        if (me := program()) is not None:
            me.created += 1
        is_new = name not in self.objects
        created = super().create(name, data)
        if is_new:
            if name.endswith(".ranges.json"):
                self.bodies[name] = data
            self.on_create(name, data)
        return created

    def get(self, name: str) -> bytes | None:
        pause("get")
        return super().get(name)

    def list(self, folder: str) -> list[str]:
        pause(f"list {folder}")
        return super().list(folder)

    def delete(self, name: str) -> None:
        pause("delete")
        self.removed.add(name)
        super().delete(name)


def _stepping(verb: str) -> Any:
    def stepping(self: SteppingCluster, *words: Any) -> Any:
        pause(verb)
        return getattr(InMemoryCluster, verb)(self, *words)

    return stepping


class SteppingCluster(InMemoryCluster):
    """:ivar on_commit: is told of each commit to the group, before it."""

    on_commit: Callable[[TopicPartition, CommittedOffset], None]
    describe, end_offsets = _stepping("describe"), _stepping("end_offsets")
    ends_of_epochs = _stepping("ends_of_epochs")

    def log_start_offsets(self, partitions: Any) -> Any:
        pause("log_start_offsets")
        if (me := program()) is not None:
            me.log_starts = {}
        return super().log_start_offsets(partitions)

    def offsets_for_times(self, times_ms: Any, isolation_level: Any) -> Any:
        pause("offsets_for_times")
        if (me := program()) is not None and not me.log_starts:
            logs = {tp: self.log_of(tp) for tp in times_ms}
            first = {tp: log.entries[0].timestamp_ms if log.entries else None for tp, log in logs.items()}
            me.log_starts = {tp: (log.log_start_offset, first[tp]) for tp, log in logs.items()}
        return super().offsets_for_times(times_ms, isolation_level)

    def committed(self, group_id: str, partitions: Any) -> Any:
        pause("committed")
        found = super().committed(group_id, partitions)
        if (me := program()) is not None:
            me.group = {**me.group, **found}
        return found

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Not atomic: a crash may come between two partitions."""
        for tp in sorted(offsets):
            pause("commit_offsets")
            if self._exists(tp) and not self.members.get(group_id):
                self.on_commit(tp, offsets[tp])
            super().commit_offsets(group_id, {tp: offsets[tp]})

    # ── what a reader is given ────────────────────────────────────────────────────────────────────────────────────────

    def log_of(self, tp: TopicPartition) -> Log:
        return self.topics[tp.topic].logs.get(tp.partition, Log()) if tp.topic in self.topics else Log()

    def records(self, tp: TopicPartition, start: int, end: int, isolation_level: str) -> list[tuple[str, int, int]]:
        """The records that a reader is given now: (topic id, offset, leader epoch)."""
        topic_id, log = self.topics[tp.topic].topic_id, self.log_of(tp)
        seen = (e for e in log.entries if start <= e.offset < end and not e.control)
        if isolation_level == "read_committed":
            seen = (e for e in seen if e.transaction is None or e.transaction.aborted is False)
        return [(topic_id, e.offset, epoch_of(log, e.offset)) for e in seen]


def epoch_of(log: Log, offset: int) -> int:
    return max(epoch for epoch, first in log.epochs.items() if first <= offset)
