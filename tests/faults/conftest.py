"""Which rows are played: one of each class, or with `--all-faults` all of them."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all-faults"):
        return
    rows = {item: item.callspec.params["row"] for item in items if "row" in getattr(item, "callspec", _NONE).params}
    left_out = [item for item, row in rows.items() if not getattr(row, "in_every_test_run", True)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


class _NONE:
    params: dict[str, object] = {}
