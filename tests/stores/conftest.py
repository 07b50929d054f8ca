"""Which kinds of work store are tested: those that need only Python, or with `--clouds` Google's, Azure's and HDFS."""

import pytest

from tests.stores.kinds import Kind


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    clouds = config.getoption("--clouds")
    left_out = [item for item in items if any(kind.needs_option != clouds for kind in _kinds_of(item))]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _kinds_of(item: pytest.Item) -> list[Kind]:
    """The kind that a test is for, if it is for one."""
    found = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [value for value in found if isinstance(value, Kind)]
