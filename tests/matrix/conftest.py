"""Which rows run, and what they leave in the document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.matrix.document import DOCUMENT, Seen, document
from tests.matrix.rows import chosen

_SEEN = pytest.StashKey[Seen]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "row" in metafunc.fixturenames:
        rows = chosen(metafunc.config.getoption("--rows") or "")
        metafunc.parametrize("row", rows, ids=lambda row: row.name, scope="module")


@pytest.fixture(scope="session")
def seen(pytestconfig: pytest.Config) -> Iterator[Seen]:
    """With `--rows`, the document is made anew of it in the end."""
    made = pytestconfig.stash[_SEEN] = Seen()
    yield made
    if pytestconfig.getoption("--rows") is not None:
        DOCUMENT.write_text(document(DOCUMENT.read_text() if DOCUMENT.exists() else "", made))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A step that has not been set up has failed, too."""
    report = yield
    row = item.callspec.params.get("row") if hasattr(item, "callspec") else None
    if row is not None and not report.skipped and (report.when == "call" or (report.when == "setup" and report.failed)):
        steps = item.config.stash.setdefault(_SEEN, Seen()).steps.setdefault(row.name, {})
        step = item.originalname.removeprefix("test_").replace("_", " ")  # type: ignore[attr-defined]
        steps[step] = "yes" if report.passed else "FAILED"
    return report
