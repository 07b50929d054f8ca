"""A pytest plugin (``-p tests.mutations.fast``): no test that needs a broker or Java, and no example is made smaller.

Nor the tests of docs/conformance.md, which are about the tests.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

_SLOW = {"broker", "real_site", "java", "proxied", "proxy"}

# A law that fails is all that is asked for: the smallest example would take most of the time.
settings.register_profile("mutations", phases=(Phase.explicit, Phase.reuse, Phase.generate))
settings.load_profile("mutations")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = [item for item in items if _is_slow(item)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not _is_slow(item)]


def _is_slow(item: pytest.Item) -> bool:
    if item.path.name == "test_document.py" or _SLOW & set(getattr(item, "fixturenames", ())):
        return True
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(isinstance(value, str) and value == "broker" for value in parameters)
