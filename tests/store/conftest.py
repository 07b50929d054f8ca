"""What needs Go or npm runs where it is asked for: ``pytest -m clouds tests/store``."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "clouds" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("clouds")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
