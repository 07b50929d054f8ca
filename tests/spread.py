"""Which of several processes runs which file: what is dear to start is started in few of them.

A process that has begun with the files of one kind goes on with them, so that it starts their Spark or Airflow once.
Then it takes files that need neither, and at last those of another kind, so that at the end two share what is left.
Of files of one kind, the long ones are first: at the end no process waits for one that has just begun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

# By folder; the first that holds a file is the file's. All others start a broker at most.
KINDS = {
    "tests/spark/": "Spark",
    "tests/airflow/": "Airflow",
    "tests/lineage/": "Airflow",
}

# The longest of their kind.
LONG = (
    "tests/airflow/test_use_cases.py",
    "tests/model/test_model.py",
    "tests/spark/merge/test_merge.py",
    "tests/spark/sinks/test_drivers.py",
    "tests/spark/sinks/test_tables.py",
)

MOST = 2  # processes that begin with one kind: a third one would take longer to start than it saves


def kind_of(file: str) -> str | None:
    return next((kind for folder, kind in KINDS.items() if file.startswith(folder)), None)


class KindsTogether(LoadFileScheduling):
    """As ``--dist=loadfile``, but for which file is next."""

    def _reschedule(self, node: WorkerController) -> None:
        if self.workqueue and self._next_for(node) is None:
            node.shutdown()  # once it has run what it was given
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if (file := self._next_for(node)) is not None:
            self.workqueue.move_to_end(file, last=False)
            super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str | None:
        """``None`` where only files are left whose kind enough processes have begun with."""
        own = _kinds(self.assigned_work[node])
        begun = Counter(kind for files in self.assigned_work.values() for kind in _kinds(files))
        left = Counter(kind_of(file) for file in self.workqueue)

        def preference(file: str) -> tuple[bool, bool, bool, int, bool]:
            kind = kind_of(file)
            is_new = kind is not None and not begun[kind]
            return kind in own, not own and is_new, kind is None, left[kind], file in LONG

        possible = [
            file for file in self.workqueue if (kind := kind_of(file)) is None or kind in own or begun[kind] < MOST
        ]
        return max(possible, key=preference, default=None)


def _kinds(files: Iterable[str]) -> set[str]:
    return {kind for file in files if (kind := kind_of(file)) is not None}


@pytest.hookimpl(optionalhook=True)  # xdist asks for it
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> KindsTogether | None:
    return KindsTogether(config, log) if config.option.dist == "loadfile" else None  # type: ignore[arg-type]
