"""The reference has every public name, and each parameter that a docstring tells of is there."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

import airflow_kafka_offsets
from airflow_kafka_offsets import spark
from airflow_kafka_offsets.spark import sinks
from tests.docs.pages import PAGES

SHOWN = [name for page in PAGES for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)]


def shown(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("package", [airflow_kafka_offsets, spark, sinks], ids=lambda package: package.__name__)
def test_every_public_name_is_in_the_reference(package: Any) -> None:
    public = {getattr(package, name) for name in package.__all__ if name not in ("__version__", "SinkBatch")}
    assert public - {shown(name) for name in SHOWN} == set()


@pytest.mark.parametrize("name", SHOWN)
def test_every_parameter_that_is_documented_is_there(name: str) -> None:
    found = shown(name)
    text = inspect.getdoc(found) or ""
    assert text, "what the reference shows has a docstring"
    documented = set(re.findall(r":param (\w+):", text))
    assert documented - parameters_of(found) == set()


def parameters_of(found: Any) -> set[str]:
    """Of a function; of a class those of its own ``__init__`` and of its bases', which it passes on."""
    if not inspect.isclass(found):
        return set(inspect.signature(found).parameters)
    return {name for kind in inspect.getmro(found) for name in _own(kind)}


def _own(kind: Any) -> set[str]:
    init = vars(kind).get("__init__")
    return set() if init is None or kind is object else set(inspect.signature(init).parameters)
