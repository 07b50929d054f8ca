"""The rows of the fault matrix: what each declares, and how one is played.

A row is a function of a `Scene` that makes its fault, lets Airflow (or an operator) bring the run to its end, and
returns the proof that the fault fired. What it declares is what the matrix in docs/fault-matrix.md says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.faults.scene import Ground, NotFired, PromiseBroken, Scene

Kind = Literal["Spark", "Airflow", "Kafka", "Stores"]
End = Literal["healed", "refused"]


@dataclass(frozen=True)
class Row:
    """One fault.

    :ivar made: how, at which boundary.
    :ivar remedy: of a row that is refused: what the task's log told to do, and the row did.
    :ivar known_wrong: the row fails today: what is wrong, and what will mend it. If it holds, the test fails.
    :ivar shows: of such a row: words of the broken promise that it fails with. It fails for no other reason.
    :ivar in_every_test_run: the one of its kind that plain `pytest` plays.
    """

    kind: Kind
    name: str
    play: Callable[[Scene], str]
    ends: End
    made: str
    cause: str = ""
    remedy: str = ""
    known_wrong: str = ""
    shows: str = ""
    in_every_test_run: bool = False
    scene: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.name}".replace(" ", "-")


@dataclass(frozen=True)
class Played:
    """What came of a row."""

    row: Row
    proof: str
    end: str
    seconds: float


ROWS: list[Row] = []


def row(kind: Kind, name: str, *, ends: End, made: str, **more: Any) -> Callable[[Callable[[Scene], str]], Row]:
    """Declare a row; the function plays it."""

    def declare(play: Callable[[Scene], str]) -> Row:
        declared = Row(kind, name, play, ends, made, **more)
        assert (ends == "refused") == bool(declared.cause and declared.remedy), name
        assert bool(declared.known_wrong) == bool(declared.shows), name
        ROWS.append(declared)
        return declared

    return declare


def play(chosen: Row, ground: Ground) -> tuple[str, str]:
    """Play a row to its end; the proof that its fault fired, and the end in words.

    :raises AssertionError: the fault did not fire, or the end is another than the row's.
    """
    scene = Scene(ground, chosen.name, **chosen.scene)
    try:
        return judged(chosen, lambda: _played(chosen, scene))
    finally:
        scene.close()


def judged(chosen: Row, played: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """What was played; of a row that is known to be wrong, how it broke the promise.

    :raises PromiseBroken: the row does not hold, or one that is known to be wrong holds or breaks another promise.
    """
    if not chosen.known_wrong:
        return played()
    try:
        played()
    except PromiseBroken as broken:
        if chosen.shows not in str(broken):
            raise
        return str(broken), f"known to be wrong: {chosen.known_wrong}"
    raise PromiseBroken(f"the row holds now: remove its known_wrong ({chosen.known_wrong})")


def _played(chosen: Row, scene: Scene) -> tuple[str, str]:
    proof = chosen.play(scene)
    if not proof:
        raise NotFired("the row has no proof that its fault fired")
    if bool(scene.refusals) != (chosen.ends == "refused"):
        raise PromiseBroken(f"the row should end {chosen.ends}; refused: {scene.refusals}")
    if chosen.cause and chosen.cause not in scene.refusals:
        raise PromiseBroken(f"the row's cause is {chosen.cause}; refused: {scene.refusals}")
    return proof, scene.check()
