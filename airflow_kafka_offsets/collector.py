"""Python's search for cycles of garbage, put off while a cluster answers, and while a plan is made or committed.

It looks at all objects of the process each time that enough new ones are there; in an Airflow task those are some
hundred thousand. A plan of 10,000 partitions makes as many, none of them in a cycle, and takes a third longer with it.
Every layer may use it: nothing of this package is imported here.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def search_put_off() -> Iterator[None]:
    """Also a decorator. Whoever has it switched off already keeps it so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
