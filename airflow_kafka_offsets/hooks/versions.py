"""What differs between Airflow 3.1 and 3.3 and is not in ``airflow.providers.common.compat``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_ONE_AT_A_TIME = RLock()  # the page is made in several threads, and the variable is the process's


@contextmanager
def connections_in_the_database() -> Iterator[None]:
    """Find the connections of the metadata database in the API server, too.

    From Airflow 3.2 on, the Task SDK looks there only in a process that this variable calls a server's.
    """
    with _ONE_AT_A_TIME:
        former = os.environ.get(_PROCESS_CONTEXT)
        os.environ.setdefault(_PROCESS_CONTEXT, "server")
        try:
            yield
        finally:
            if former is None:
                del os.environ[_PROCESS_CONTEXT]
