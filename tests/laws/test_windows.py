"""Who gets a window, whatever the order: runs register step by step, each step of each in any order.

A step is one question to the store, or one write. The store is in memory, and creates a name once, as any store does.
Runs wait for their turn at each step, and hypothesis says whose it is.
"""

from __future__ import annotations

import threading
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import WindowRepeated
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.windows import TimeClaim
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.windows import WindowRegister

law = settings(deadline=None, max_examples=300)

DAY = 86_400_000
T = 1_795_132_800_000


class MemoryStore(WorkStore):
    """The three things that a register asks of a store; ``objects`` is shared by all runs."""

    def __init__(self, objects: dict[str, dict[str, Any]], turn: Any) -> None:
        super().__init__(None, "memory")
        self.objects, self.turn = objects, turn

    def create(self, name: str, value: dict[str, Any]) -> bool:
        self.turn()
        return self.objects.setdefault(name, value) is value

    def read(self, name: str) -> dict[str, Any] | None:
        self.turn()
        return self.objects.get(name)

    def numbers(self, folder: str, stem: str) -> list[int]:
        self.turn()
        prefix = f"{folder}/{stem}."
        return sorted(int(name[len(prefix) :].split(".")[0]) for name in self.objects if name.startswith(prefix))


class Killed(BaseException):
    """The process is gone."""


class Try(threading.Thread):
    """One try of a run to hold its window, which goes one step at a time."""

    def __init__(self, run: RunKey, claim: TimeClaim, objects: dict[str, Any], is_alive: Any) -> None:
        super().__init__(daemon=True)
        self.run_key, self.claim = run, claim
        self.register = WindowRegister(MemoryStore(objects, self._turn), "c", "p", run, is_alive)
        self.outcome: str | None = None
        self._go, self._stopped, self._kill = threading.Semaphore(0), threading.Semaphore(0), False

    def run(self) -> None:
        self._go.acquire()
        try:
            self.register.hold(self.claim)
            self.outcome = "held"
        except WindowRepeated:
            self.outcome = "refused"
        except Killed:
            self.outcome = "killed"
        self._stopped.release()

    def _turn(self) -> None:
        self._stopped.release()
        self._go.acquire()
        if self._kill:
            raise Killed

    def step(self) -> None:
        if self.outcome is None:
            self._go.release()
            self._stopped.acquire()

    def kill(self) -> None:
        self._kill = True
        while self.outcome is None:
            self.step()

    def finish(self) -> None:
        for _ in range(10_000):
            if self.outcome is not None:
                return
            self.step()
        raise AssertionError("it waits for ever")


def _claim(start: int, length: int, later: int | None) -> TimeClaim:
    """With ``later``, of two topics, one of which is that much behind the other."""
    bounds = T + start * DAY // 2, T + (start + length) * DAY // 2
    if later is None:
        return TimeClaim(*bounds)
    behind = bounds[0] + later * DAY // 2, bounds[1] + later * DAY // 2
    return TimeClaim(bounds[0], behind[1], (("orders", *bounds), ("payments", *behind)))


CLAIMS = st.builds(_claim, st.integers(0, 5), st.integers(1, 5), st.none() | st.integers(0, 3))
CLAIM_LISTS = st.lists(CLAIMS, min_size=2, max_size=4)
ORDERS = st.lists(st.integers(0, 3), min_size=60, max_size=120)  # shorter ones are no more than one after the other


def begin(claims: list[TimeClaim], objects: dict[str, Any], is_alive: Any) -> list[Try]:
    tries = [Try(RunKey("dag", f"run-{n}", "resolve"), claim, objects, is_alive) for n, claim in enumerate(claims)]
    for one in tries:
        one.start()
    return tries


def assert_no_two_hold_the_same(tries: list[Try]) -> None:
    held = [one for one in tries if one.outcome == "held"]
    for one in held:
        rivals = [other for other in held if other.run_key != one.run_key and other.claim.overlaps(one.claim)]
        assert not rivals, (one.claim, [other.claim for other in rivals])


@law
@given(CLAIM_LISTS, ORDERS)
def test_of_overlapping_windows_one_run_gets_its_own_and_only_one(claims: list[TimeClaim], order: list[int]) -> None:
    tries = begin(claims, {}, lambda run: True)
    for number in order:
        tries[number % len(tries)].step()
    for one in tries:
        one.finish()
    assert_no_two_hold_the_same(tries)
    held = [one for one in tries if one.outcome == "held"]
    assert held
    for one in tries:
        alone = not any(other.claim.overlaps(one.claim) for other in tries if other is not one)
        assert not alone or one in held, "who is in nobody's way is not refused"


@law
@given(CLAIM_LISTS, ORDERS, st.lists(st.booleans(), max_size=40))
def test_a_wrong_answer_about_who_is_alive_never_gives_a_window_to_two(
    claims: list[TimeClaim], order: list[int], answers: list[bool]
) -> None:
    """Airflow says that a run is dead whose worker is only slow, or the other way round."""
    pending = list(answers)
    tries = begin(claims, {}, lambda run: pending.pop() if pending else True)
    for number in order:
        tries[number % len(tries)].step()
    for one in tries:
        one.finish()
    assert_no_two_hold_the_same(tries)


@law
@given(CLAIM_LISTS, ORDERS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 59)), max_size=3))
def test_runs_that_were_refused_or_died_before_they_had_their_window_block_nobody(
    claims: list[TimeClaim], order: list[int], deaths: list[tuple[int, int]]
) -> None:
    objects: dict[str, Any] = {}
    dead: set[RunKey] = set()
    tries = begin(claims, objects, lambda run: run not in dead)
    for at, number in enumerate(order):
        for who in [tries[n % len(tries)] for n, when in deaths if when == at]:
            who.kill()
            if who.outcome == "killed":
                dead.add(who.run_key)
        tries[number % len(tries)].step()
    for one in tries:
        one.finish()
    assert_no_two_hold_the_same(tries)

    lasting = [one for one in tries if one.outcome == "held"]
    for old in [one for one in tries if one.outcome != "held"]:  # all are over; each tries again, alone
        again = Try(old.run_key, old.claim, objects, lambda run: run not in dead)
        again.start()
        again.finish()
        in_the_way = any(one.claim.overlaps(old.claim) for one in lasting)
        assert again.outcome == ("refused" if in_the_way else "held")
        lasting += [again] if again.outcome == "held" else []
