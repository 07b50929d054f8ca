"""Files that start the same are run by one process, as long as the others have something to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.spread import KindsTogether, kind_of

SPARK = [f"tests/spark/test_{n}.py" for n in range(4)]
MORE_SPARK = [f"tests/spark/rows/test_{n}.py" for n in range(12)]
SINKS = [f"tests/spark/sinks/test_{n}.py" for n in range(3)]
AIRFLOW = [f"tests/airflow/test_{n}.py" for n in range(3)]
OTHERS = [f"tests/plan/test_{n}.py" for n in range(6)]


@dataclass(eq=False)
class Process:
    """Stands for a process of xdist: it has run what it was sent when somebody asks."""

    collection: list[str]
    sent: list[int] = field(default_factory=list)
    done: int = 0
    shutting_down: bool = False
    id: str = "a process"

    @property
    def gateway(self) -> Process:
        return self

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def files(self) -> list[str]:
        return [self.collection[index].partition("::")[0] for index in self.sent[::3]]


@dataclass
class Options:
    """Stands for pytest's options."""

    processes: int
    loadscopereorder: bool = False

    @property
    def option(self) -> Options:
        return self

    def getvalue(self, _: str) -> list[str]:
        return [f"{self.processes}*popen"]


def spread(files: list[str], *speeds: int) -> list[Process]:
    """Processes that have run the files, three tests each; in one step each runs as many tests as its speed says."""
    scheduler = KindsTogether(Options(len(speeds)))  # type: ignore[arg-type]
    tests = [f"{file}::test_{number}" for file in files for number in range(3)]
    processes = [Process(tests) for _ in speeds]
    given: list[Any] = list(processes)
    for process in given:
        scheduler.add_node(process)
    for process in given:
        scheduler.add_node_collection(process, tests)
    scheduler.schedule()
    while any(process.done < len(process.sent) for process in processes):
        for process, speed in zip(given, speeds, strict=True):
            for index in process.sent[process.done : process.done + speed]:
                process.done += 1
                scheduler.mark_test_complete(process, index)
    assert sorted(index for process in processes for index in process.sent) == list(range(len(tests)))
    return processes


def test_each_kind_has_a_process_of_its_own_and_the_others_one_more() -> None:
    files = [file for some in zip(OTHERS[:3], SPARK, SINKS, AIRFLOW, strict=False) for file in some]
    found = spread(files, 1, 1, 1, 1)
    assert [{kind_of(file) for file in process.files} for process in found] == [
        {"a session"}, {"a driver"}, {"Airflow"}, {None},
    ]  # fmt: skip


def test_a_process_whose_kind_is_done_goes_on_with_others_and_then_with_another_kind() -> None:
    slow, fast = spread([*SINKS, *OTHERS, *MORE_SPARK], 1, 9)
    kinds = [kind_of(file) for file in fast.files]
    assert kinds == sorted(kinds, key=["a driver", None, "a session"].index)
    assert set(kinds) == {"a driver", None, "a session"}
    assert {kind_of(file) for file in slow.files} == {"a session"}


def test_the_kinds_that_are_more_than_the_processes_are_done_last() -> None:
    (only,) = spread([*AIRFLOW, *OTHERS, *SPARK], 1)
    kinds = [kind_of(file) for file in only.files]
    assert [kind for kind, after in zip(kinds, [*kinds[1:], ""], strict=True) if kind != after] == [
        "a session", None, "Airflow",
    ]  # fmt: skip


def test_no_more_than_two_processes_start_the_same() -> None:
    found = spread([*OTHERS, *MORE_SPARK, *SPARK], 1, 9, 9, 9)
    assert len([process for process in found if any(map(kind_of, process.files))]) == 2
    assert all(process.shutting_down for process in found)
