"""A pytest plugin (``-p tests.in_memory``): only the tests that run in this process, which starts no other one.

What needs a broker, Java, a store's server or Airflow's database is left out. A test that was taken for one in memory,
and yet starts a process or opens a database, fails. Of a law that fails, the smallest example is not looked for.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import Phase, settings

# What a test asks for, itself or through another fixture, if it is not in memory.
OUTSIDE = {"airflow", "airflow_database", "broker", "java", "postgres", "proxied", "proxy", "real_site", "spark"}
STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "sqlite3.connect"} | {
    "subprocess.Popen"
}

settings.register_profile("in memory", phases=(Phase.explicit, Phase.reuse, Phase.generate))
settings.load_profile("in memory")

_running: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if not is_in_memory(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if is_in_memory(item)]


def is_in_memory(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in ("starts_processes", "slow", "clouds")):
        return False
    if OUTSIDE & set(getattr(item, "fixturenames", ())):
        return False
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return not any(value == "broker" or getattr(value, "server", None) for value in parameters)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _running.append(item.nodeid)
    try:
        return (yield)
    finally:
        _running.pop()


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if _running and event in STARTS:
        raise RuntimeError(f"{_running[-1]} is no test in memory: {event}{arguments[:1]}. Mark it starts_processes.")


sys.addaudithook(_refuse)
