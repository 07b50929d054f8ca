"""Which rows are played: one of each class, or with `--all-faults` all of them."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all-faults"):
        return
    left_out = [item for item in items if not getattr(_row_of(item), "in_every_test_run", True)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _row_of(item: pytest.Item) -> object:
    """The row that a test plays; `None` for a test that plays none."""
    return item.callspec.params.get("row") if hasattr(item, "callspec") else None
