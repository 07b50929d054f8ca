"""Whose turn it is: the runs of one pipeline plan and commit one after the other, in the order in which they asked.

::

    checkpoints/<cluster_id>/<checkpoint_id>/turn.<n>.json    a run wants to plan, or has planned and not committed
    checkpoints/<cluster_id>/<checkpoint_id>/over.<n>.json    that turn is over: committed, or its run was found dead

A turn is a number that is created once, so the turns of a pipeline have one order that everybody sees alike: the lowest
open number of a living run goes on, every other is refused and asks again later (Airflow's retries). Two never wait for
each other, and a dead run holds nobody up. Whether a run lives is the caller's to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass

from airflow_kafka_offsets.errors import OverlappingRun
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.stores.objects import Numbered, WorkStore

IsAlive = Callable[[RunKey], bool]
"""Whether the Airflow run of that task instance is queued or running."""


def nobody_lives(_: RunKey) -> bool:
    """Every other run is over."""
    return False


@dataclass(frozen=True)
class Turns:
    """The turns of one pipeline; ``folder`` is that of its checkpoints."""

    store: WorkStore
    folder: str

    def take(self, run: RunKey | None, is_alive: IsAlive | None) -> None:
        """Go on if no living run came before ``run``; its turn stays open until :meth:`end`.

        :param run: ``None``: somebody who is no run (the command line) comes after all that are open.
        :param is_alive: ``None`` where it cannot be known: nobody is waited for, and nobody's turn is ended.
        :raises OverlappingRun: another run's turn is not over; nothing was planned or written.
        """
        opened = self._open()
        own = next((turn for turn in opened if _run_of(turn) == run), None)
        if own is None and run is not None:
            own = self.store.append(self.folder, "turn", {"version": 1, "run": list(astuple(run))})
            opened = self._open()  # every lower number is there by now
        for turn in opened:
            if is_alive is None or (own is not None and turn.number >= own.number):
                break
            other = _run_of(turn)
            if is_alive(other):
                one_run = run is not None and (run.dag_id, run.run_id) == (other.dag_id, other.run_id)
                raise OverlappingRun(f"run {run}" if run else "this command", str(other), one_run)
            self._close(turn)

    def end(self, run: RunKey) -> None:
        """The run has committed, or will not."""
        for turn in self._open():
            if _run_of(turn) == run:
                self._close(turn)

    def _open(self) -> list[Numbered]:
        over = set(self.store.numbers(self.folder, "over"))
        return self.store.series(self.folder, "turn", without=over)

    def _close(self, turn: Numbered) -> None:
        self.store.create(f"{self.folder}/over.{turn.number}.json", {"version": 1, "run": turn.value["run"]})


def _run_of(turn: Numbered) -> RunKey:
    return RunKey(*turn.value["run"])
