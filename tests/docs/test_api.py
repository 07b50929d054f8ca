"""The reference has every public name, and each parameter that a docstring tells of is there."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

import airflow_kafka_offsets
from airflow_kafka_offsets import spark
from airflow_kafka_offsets.request import parameters
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
def test_every_parameter_is_documented_and_none_that_is_not_there(name: str) -> None:
    found = shown(name)
    assert inspect.getdoc(found), "what the reference shows has a docstring"
    texts = [inspect.getdoc(kind) or "" for kind in (inspect.getmro(found) if inspect.isclass(found) else (found,))]
    documented = {name for text in texts for name in re.findall(r":(?:param|ivar) (\w+):", text)}
    of_a_reader = set(re.findall(r":param (\w+):", texts[0]))
    assert of_a_reader - parameters_of(found, whole=True) == set()
    assert parameters_of(found, whole=False) - documented == set()


def parameters_of(found: Any, *, whole: bool) -> set[str]:
    """Of a function; of a class those of its own ``__init__`` and of its bases', which it passes on.

    A table of parameters is no such base: a task says by its own signature which of them it has.

    :param whole: also of bases that are Airflow's, which tells of them.
    """
    if not inspect.isclass(found):
        names = set(inspect.signature(found).parameters)
    else:
        kinds = [
            kind
            for kind in inspect.getmro(found)
            if whole or (kind.__module__.startswith("airflow_kafka_offsets") and kind.__module__ != parameters.__name__)
        ]
        names = {name for kind in kinds for name in _own(kind)}
    return names if whole else names - {"self", "args", "kwargs"}


def _own(kind: Any) -> set[str]:
    init = vars(kind).get("__init__")
    return set() if init is None or kind is object else set(inspect.signature(init).parameters)
