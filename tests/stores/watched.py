"""A store of which every question is counted, and processes that take turns at it, one question after another.

A crash or a rival between any two questions is what a store's users have to live with. ``interleavings`` plays all
orders that there are, so that nothing is left to luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from greenlet import getcurrent, greenlet

from airflow_kafka_offsets.stores.store import Store


class Watched:
    """``before(verb, name)`` is called before each question is put to ``store``."""

    def __init__(self, store: Store, before: Callable[[str, str], None]) -> None:
        self.store, self.before = store, before
        self.uri, self.driver_uri, self.is_remote = store.uri, store.driver_uri, False

    def create(self, name: str, data: bytes) -> bool:
        self.before("create", name)
        return self.store.create(name, data)

    def get(self, name: str) -> bytes | None:
        self.before("get", name)
        return self.store.get(name)

    def list(self, folder: str) -> list[str]:
        self.before("list", folder)
        return self.store.list(folder)

    def delete(self, name: str) -> None:
        self.before("delete", name)
        self.store.delete(name)


class Counting(Watched):
    """Remembers what it was asked."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda verb, name: self.asked.append((verb, name)))
        self.asked: list[tuple[str, str]] = []

    def of(self, verb: str) -> list[str]:
        return [name for asked, name in self.asked if asked == verb]


class Crash(BaseException):
    """The process is gone."""


class Dying(Watched):
    """Dies before the question number ``at``, counted from 0 over the verbs ``verbs``."""

    def __init__(self, store: Store, at: int, verbs: Sequence[str] = ("create", "delete")) -> None:
        self.left, self.verbs = at, verbs
        super().__init__(store, self._count)

    def _count(self, verb: str, name: str) -> None:
        if verb in self.verbs:
            if not self.left:
                raise Crash
            self.left -= 1


class Process:
    """A process that goes on by one question at a time; ``outcome`` is what it returned, or the error that ended it."""

    def __init__(self, store: Store, work: Callable[[Store], Any]) -> None:
        self.outcome: Any = None
        mine = Watched(store, lambda verb, name: getcurrent().parent.switch())

        def play() -> None:
            try:
                self.outcome = work(mine)
            except Exception as error:
                self.outcome = error

        self._greenlet = greenlet(play)

    @property
    def is_over(self) -> bool:
        return self._greenlet.dead

    def step(self) -> None:
        self._greenlet.parent = getcurrent()
        self._greenlet.switch()


def interleavings(start: Callable[[], list[Process]]) -> Iterator[list[Process]]:
    """Every order in which the processes of ``start`` can take their steps, each played to its end."""
    waiting: list[list[int]] = [[]]
    while waiting:
        order = waiting.pop()
        processes = start()
        for number in order:
            processes[number].step()
        while True:
            alive = [number for number, process in enumerate(processes) if not process.is_over]
            if not alive:
                break
            waiting += [[*order, number] for number in alive[1:]]
            order.append(alive[0])
            processes[alive[0]].step()
        yield processes
