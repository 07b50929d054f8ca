"""Workers that stop before each look and each write, to go on at once, much later, or never.

A step is one call of the code under test (a resolve, a Spark driver, a commit) in a greenlet of its own. Each verb of
the work store, each question to the cluster, each write to the group and a driver's swap of its output are places where
it pauses: what happens elsewhere before it goes on, and whether it does, is the model's choice. So a crash, a zombie,
two committers and a person's reset between a look and a write are all one thing: another order of the same pauses.

A step that stops at a write for good may leave it undone, done, or (a plain commit is not atomic) done in part. It may
also live on, and be told of an error, or that somebody else was faster: a client library that repeats a request whose
answer was lost finds the object that it wrote itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from greenlet import getcurrent, greenlet

from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    KafkaOffsetsError,
    NothingToDiscover,
    StoreUnavailable,
)
from airflow_kafka_offsets.kafka_values import ClusterDescription, CommittedOffset, TopicPartition
from tests.cluster.memory import InMemoryCluster
from tests.model.store import MemoryStore


class Killed(BaseException):
    """The process is gone: nothing of it may catch this."""


@dataclass(frozen=True)
class Fate:
    """What becomes of a step at the place where it stands.

    :ivar arrived: how many parts of its write are done all the same; an object has one part, a commit one a partition.
    :ivar then: it ``dies``; or an ``error`` is raised; or it is told that the name was ``taken``.
    """

    arrived: int = 0
    then: Literal["dies", "error", "taken"] = "dies"


class Step:
    """One call, as far as it has come.

    :ivar kind: ``resolve``, ``spark``, ``commit`` or, at a terminal, ``skip`` and ``clean``.
    :ivar run: whose task it is.
    :ivar ask: what that run was asked when the step began.
    :ivar at: where it stands: what it is about to do.
    :ivar error: the refusal that it ended with. Anything else that it raises is a flaw, and is raised in the model.
    """

    def __init__(
        self,
        kind: str,
        run: Any,
        ask: Mapping[str, Any],
        call: Callable[[], Any],
        tick: Callable[[], int],
        on_return: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self._greenlet = greenlet(self._run)
        self._greenlet.step = self  # type: ignore[attr-defined]
        self._call, self._tick, self._on_return = call, tick, on_return
        self.kind, self.run, self.ask = kind, run, ask
        self.at = "start"
        self.error: Exception | None = None
        self.done = False
        self._returned: list[Any] = []
        # What the books keep of it.
        self.began_at = tick()
        self.ended_at: int | None = None
        self.group_at_birth: Mapping[TopicPartition, CommittedOffset] = {}
        self.seen_group: dict[TopicPartition, CommittedOffset | None] = {}
        self.described: dict[str, str | None] = {}
        self.wrote_group_at: int | None = None
        self.verified: set[str] = set()
        self.verified_splits: set[tuple[str, int]] = set()
        self.log_starts: Mapping[Any, int] = {}
        self.stopped: tuple[str, int] | None = None  # whose drivers it has stopped: folder, entry

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
        self.advance(3_000)
        assert self.done, f"{self} never ends: it stands at {self.at!r}"
        return self

    def strike(self, fate: Fate) -> Step:
        """Something goes wrong where it stands."""
        if not self.done and self._greenlet:
            self.at = self._greenlet.switch(fate) or self.at
            self._settle()
        if fate.then == "dies":
            self.done = True
        return self

    def _settle(self) -> None:
        """What it returned is taken outside of it, so that nobody who looks is held up."""
        if self._returned and not self.done:
            self.done = True
            self._on_return(self._returned[0])
        self.done = self.done or self._greenlet.dead

    def _run(self) -> None:
        try:
            self._returned.append(self._call())
        except (KafkaOffsetsError, SparkFailed) as error:
            self.error = error
        except Killed:
            return
        self.ended_at = self._tick()

    def __str__(self) -> str:
        return f"{self.kind} of {self.run}"


class SparkFailed(Exception):
    """Spark's own error: it cannot read what its plan names."""


def current_step() -> Step | None:
    return getattr(getcurrent(), "step", None)


def wait_at(where: str) -> Fate | None:
    """Wait for the model. ``None``: go on."""
    if current_step() is None:
        return None
    fate: Fate | None = getcurrent().parent.switch(where)
    return fate if isinstance(fate, Fate) else None


def pause(where: str, error: Callable[[], Exception] | None = None) -> None:
    """A place at which nothing is written."""
    fate = wait_at(where)
    if fate is None:
        return
    if fate.then == "dies" or error is None:
        raise Killed
    raise error()


def _no_store() -> Exception:
    return StoreUnavailable("Cannot ask the store", "no route", "Retry.", retriable=True)


def _no_cluster() -> Exception:
    return ClusterUnavailable("Cannot ask the cluster", "no route", "Retry.", retriable=True)


class Watch(Protocol):
    """Who is told of what steps see and do."""

    def on_create(self, name: str, data: bytes) -> None: ...

    def on_delete(self, name: str) -> None: ...

    def is_out_of_place(self, name: str) -> bool: ...

    def on_describe(self, described: ClusterDescription) -> None: ...

    def on_look(self, asked: list[TopicPartition], found: Mapping[TopicPartition, CommittedOffset]) -> None: ...

    def on_group_write(
        self,
        group_id: str,
        before: Mapping[TopicPartition, CommittedOffset],
        landed: Mapping[TopicPartition, CommittedOffset],
    ) -> None: ...


# ── the work store ────────────────────────────────────────────────────────────────────────────────────────────────────


class SteppedStore:
    """A store whose callers pause at each verb. Nobody who is not a step is held up."""

    def __init__(self, store: MemoryStore, watch: Watch) -> None:
        self._store, self._watch = store, watch
        self.uri = self.driver_uri = "memory"
        self.is_remote = False

    def create(self, name: str, data: bytes) -> bool:
        fate = wait_at(f"create {kind_of(name, data)}")
        if self._watch.is_out_of_place(name):
            raise _no_store()
        is_new = self._store.get(name) is None
        created = (fate is None or fate.arrived > 0) and self._store.create(name, data)
        if created and is_new:  # else these bytes were there: two of one task that write the same
            self._watch.on_create(name, data)
        if fate is None:
            return created
        if fate.then == "dies":
            raise Killed
        if fate.then == "taken" and self._store.get(name) is not None:
            return False
        raise _no_store()

    def get(self, name: str) -> bytes | None:
        pause("get", _no_store)
        return self._store.get(name)

    def list(self, folder: str) -> list[str]:
        pause("list", _no_store)
        return self._store.list(folder)

    def delete(self, name: str) -> None:
        pause("delete", _no_store)
        self._store.delete(name)
        self._watch.on_delete(name)


def kind_of(name: str, data: bytes) -> str:
    """``plan``, ``taken``, ``commit``, ``cleaned``, ``begun``, ``report``, ``run``, ``claim`` or ``output``."""
    if name.startswith("outputs/"):
        return "output"
    if name.endswith((".begun.json", ".report.json")):
        return name.rsplit(".", 2)[-2]
    if "/window-claims/" in name:
        return "claim"
    if "/runs/" in name:
        return "run"
    return next(kind for kind in ("plan", "taken", "commit", "cleaned") if f'"entry":"{kind}"'.encode() in data)


# ── the cluster ───────────────────────────────────────────────────────────────────────────────────────────────────────


_QUESTIONS = {
    "log_start_offsets": "look at the log starts",
    "end_offsets": "look at the ends",
    "offsets_for_times": "look up times",
    "newest_timestamps": "look at the newest",
    "describe_group": "look at its members",
}


class SteppedCluster:
    """A cluster whose callers pause at it. Nobody who is not a step is held up."""

    def __init__(self, cluster: InMemoryCluster, watch: Watch) -> None:
        self._cluster, self._watch = cluster, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name not in _QUESTIONS:
            return found

        def ask(*arguments: Any, **how: Any) -> Any:
            pause(_QUESTIONS[name], _no_cluster)
            return found(*arguments, **how)

        return ask

    def describe(self, *arguments: Any) -> Any:
        pause("describe", _no_cluster)
        try:
            described = self._cluster.describe(*arguments)
        except NothingToDiscover:
            self._watch.on_describe(ClusterDescription(self._cluster.cluster_id))
            raise
        self._watch.on_describe(described)
        return described

    def committed(self, group_id: str, partitions: Any, **how: Any) -> Any:
        pause("look at the group", _no_cluster)
        found = self._cluster.committed(group_id, partitions, **how)
        self._watch.on_look(list(partitions), found)
        return found

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        fate = wait_at("write the group")
        if fate is not None:
            offsets = dict(sorted(offsets.items())[: fate.arrived])
        if fate is None or fate.arrived:
            group = self._cluster.groups.setdefault(group_id, {})
            before = dict(group)
            try:
                self._cluster.commit_offsets(group_id, offsets)
            finally:
                landed = {tp: commit for tp, commit in offsets.items() if group.get(tp) is commit}
                if landed:
                    self._watch.on_group_write(group_id, before, landed)
        if fate is not None:
            if fate.then == "dies":
                raise Killed
            raise ClusterUnavailable("Cannot commit", "no answer", "Retry.", retriable=True)
