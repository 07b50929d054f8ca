"""Each test of bad input takes bounded time, of the processor, and bounded memory."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.strange import EXAMPLES

SECONDS = 60 + 0.2 * EXAMPLES
KILOBYTES = 300_000


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is forgotten: proc(5)
    began, before = time.process_time(), most_memory()
    yield
    took, more = time.process_time() - began, most_memory() - before
    assert took < SECONDS
    assert more < KILOBYTES


def most_memory() -> int:
    """Kilobytes, the most that this process has held."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])
