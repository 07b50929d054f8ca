"""Each test of bad input takes bounded time, of the processor, and bounded memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import pytest

from tests.fuzz.strange import EXAMPLES

SECONDS = 60 + 0.2 * EXAMPLES
KILOBYTES = 600_000


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    took, more = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert took < SECONDS
    assert more < KILOBYTES
