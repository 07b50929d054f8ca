"""Which of several processes runs which file: what is dear to start is started in few of them.

A process that has begun with the files of one kind goes on with them, so that it starts their Spark or Airflow once.
Then it takes files that need neither, and at last those of another kind: no process is waited for at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

# By folder; the first that holds a file is the file's. All others start a broker at most.
KINDS = {"tests/spark/sinks/": "a driver", "tests/spark/": "a session", "tests/airflow/": "Airflow"}


def kind_of(file: str) -> str | None:
    return next((kind for folder, kind in KINDS.items() if file.startswith(folder)), None)


class KindsTogether(LoadFileScheduling):
    """As ``--dist=loadfile``, but for which file is next."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(self._next_for(node), last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str:
        own = _kinds(self.assigned_work[node])
        begun = _kinds(chain(*self.assigned_work.values()))
        left = Counter(kind_of(file) for file in self.workqueue)

        def preference(file: str) -> tuple[bool, bool, bool, int]:
            kind = kind_of(file)
            is_new = kind is not None and kind not in begun
            return kind in own, not own and is_new, kind is None, left[kind]

        return max(self.workqueue, key=preference)


def _kinds(files: Iterable[str]) -> set[str]:
    return {kind for file in files if (kind := kind_of(file)) is not None}


@pytest.hookimpl(optionalhook=True)  # xdist asks for it
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> KindsTogether | None:
    return KindsTogether(config, log) if config.option.dist == "loadfile" else None  # type: ignore[arg-type]
