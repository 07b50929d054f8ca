"""Workers that stop before and after each look and each write, to go on at once, much later, or never.

A step is one call of the code under test (a resolve, a read, a commit) in a greenlet of its own. Each question to the
group, each object of the work store, and of a commit the fence, the sending and the write are places where it pauses:
what happens elsewhere before it goes on, and whether it does, is the model's choice. So a crash, a zombie, two
committers and a person's reset between a look and a write are all one thing: another order of the same pauses. A step
that is killed at a write may leave it undone, done in part, or done without knowing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from airflow_kafka_offsets.broker.protocol import Fencing
from airflow_kafka_offsets.errors import RefusedError, UnavailableError
from airflow_kafka_offsets.offsets.model import ClusterDescription, CommittedOffset, TopicPartition
from tests.cluster.memory import InMemoryCluster, MemoryCommit


class Killed(BaseException):
    """The process is gone: nothing of it may catch this."""


class Step:
    """One call, as far as it has come.

    :ivar at: where it stands: what it is about to do, or has just done.
    :ivar error: the refusal that it ended with. Anything else that it raises is a flaw, and is raised in the model.
    """

    def __init__(self, call: Callable[[], Any], on_return: Callable[[Any], None] = lambda _: None) -> None:
        self._greenlet = greenlet(self._run)
        self._greenlet.step = self  # type: ignore[attr-defined]
        self._call, self._on_return = call, on_return
        self.at = "start"
        self.error: Exception | None = None
        self.done = False
        self._returned: list[Any] = []

    @property
    def succeeded(self) -> bool:
        return self.done and bool(self._returned)

    def advance(self, pauses: int) -> Step:
        """Let it come ``pauses`` places further."""
        for _ in range(pauses):
            if self.done:
                break
            self.at = self._greenlet.switch() or self.at
            self._settle()
        return self

    def advance_to(self, where: str | int) -> Step:
        """To the first place of this name, or its end; or so many places further."""
        if isinstance(where, int):
            return self.advance(where)
        while not self.done:
            self.advance(1)
            if self.at.startswith(where):
                break
        return self

    def finish(self) -> Step:
        return self.advance(10_000)

    def kill(self, arrived: int = 0) -> None:
        """The process dies. At a write, ``arrived`` parts of it are done all the same."""
        if not self.done and self._greenlet:
            self._greenlet.switch(arrived)
        self.done = True

    def _settle(self) -> None:
        """What it returned is taken outside of it, so that nobody who looks is held up."""
        if self._returned and not self.done:
            self.done = True
            self._on_return(self._returned[0])
        self.done = self.done or self._greenlet.dead

    def _run(self) -> None:
        try:
            self._returned.append(self._call())
        except (RefusedError, UnavailableError) as error:
            self.error = error
        except Killed:
            pass


def current_step() -> Step | None:
    return getattr(getcurrent(), "step", None)


def _pause(where: str) -> int | None:
    """Wait for the model. ``None``: go on; a number: the process dies here, with so much of its write done."""
    if current_step() is None:
        return None
    arrived: int | None = getcurrent().parent.switch(where)
    return None if arrived == () else arrived


def pause(where: str) -> None:
    """A place at which nothing is written."""
    if _pause(where) is not None:
        raise Killed


class Watch(Protocol):
    """Who is told of what steps see and do at the group."""

    def on_describe(self, described: ClusterDescription) -> None: ...

    def on_look(self, found: Mapping[TopicPartition, CommittedOffset]) -> None: ...

    def on_commit(
        self, before: Mapping[TopicPartition, CommittedOffset], landed: Mapping[TopicPartition, CommittedOffset]
    ) -> None: ...


class SteppedCluster:
    """A cluster whose callers pause at it. Nobody who is not a step is held up."""

    def __init__(self, cluster: InMemoryCluster, watch: Watch) -> None:
        self._cluster, self._watch = cluster, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def describe(self, *arguments: Any) -> Any:
        pause("describe")
        described = self._cluster.describe(*arguments)
        self._watch.on_describe(described)
        return described

    def end_offsets(self, *arguments: Any) -> Any:
        pause("look at the ends")
        return self._cluster.end_offsets(*arguments)

    def committed(self, *arguments: Any, **how: Any) -> Any:
        pause("look at the group")
        found = self._cluster.committed(*arguments, **how)
        self._watch.on_look(found)
        return found

    def describe_group(self, *arguments: Any) -> Any:
        pause("look at its members")
        return self._cluster.describe_group(*arguments)

    @contextmanager
    def open_commit(self, group_id: str, fencing: Fencing) -> Iterator[SteppedCommit]:
        """A process that is killed aborts nothing: its transaction is left behind, pending."""
        pause("open the fence")
        opened = self._cluster.open_commit(group_id, fencing)
        opened.__enter__()
        try:
            pause("opened the fence")
            yield SteppedCommit(opened, self._watch)
        except Killed:
            raise
        except BaseException:
            opened.__exit__()
            raise
        opened.__exit__()


class SteppedCommit:
    def __init__(self, opened: MemoryCommit, watch: Watch) -> None:
        self._opened, self._watch = opened, watch

    def send(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        pause("send")
        self._opened.send(offsets)
        pause("sent")

    def commit(self) -> None:
        arrived = _pause("commit")
        if arrived == 0:
            raise Killed
        opened = self._opened
        if arrived is not None and opened.fencing == "compare":  # a transaction arrives as a whole
            opened.sent = dict(sorted(opened.sent.items())[:arrived])
        group = opened.cluster.groups.setdefault(opened.group_id, {})
        before = dict(group)
        try:
            opened.commit()
        finally:
            landed = {tp: commit for tp, commit in opened.sent.items() if group.get(tp) is commit}
            if landed:
                self._watch.on_commit(before, landed)
        if arrived is not None:
            raise Killed
        pause("committed")


class Place:
    """A path object like an object store's: an object is there once it is closed, and only once."""

    def __init__(self, path: Path, on_object: Callable[[Path, bytes], None]) -> None:
        self._path, self._on_object = path, on_object
        self.name = path.name

    def __truediv__(self, name: str) -> Place:
        return Place(self._path / name, self._on_object)

    @property
    def parent(self) -> Place:
        return Place(self._path.parent, self._on_object)

    def mkdir(self, **how: Any) -> None:
        self._path.mkdir(**how)

    def iterdir(self) -> Iterator[Path]:
        return self._path.iterdir()

    def read_bytes(self) -> bytes:
        return self._path.read_bytes()

    def open(self, mode: str) -> _Upload:
        assert mode == "xb", "objects are written once"
        return _Upload(self._path, self._on_object)


class _Upload:
    def __init__(self, path: Path, on_object: Callable[[Path, bytes], None]) -> None:
        self._path, self._on_object, self._data = path, on_object, b""

    def __enter__(self) -> _Upload:
        return self

    def write(self, data: bytes) -> None:
        self._data += data

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            return
        arrived = _pause(f"write {self._path.name}")
        if arrived == 0:
            raise Killed
        half = arrived == 1  # a store that publishes what was sent so far; a whole object is left by 2 and more
        with self._path.open("xb") as file:
            file.write(self._data[: len(self._data) // 2] if half else self._data)
        if not half:
            self._on_object(self._path, self._data)
        if arrived is not None:
            raise Killed
        pause(f"wrote {self._path.name}")
