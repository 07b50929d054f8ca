"""Python's search for cycles passes over older objects while a plan is made, and afterwards over none."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from airflow_kafka_offsets import garbage
from airflow_kafka_offsets.garbage import only_new_garbage


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever another test of this process has left: a thread that hangs in a plan keeps the lock."""
    monkeypatch.setattr(garbage, "_in_use", threading.Lock())
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_older_objects_are_passed_over_inside_and_not_afterwards() -> None:
    with only_new_garbage():
        frozen = gc.get_freeze_count()
        assert frozen > 0
        with only_new_garbage():
            assert gc.get_freeze_count() <= frozen
        assert gc.get_freeze_count() > 0
        assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_none_is_passed_over_after_an_error() -> None:
    @only_new_garbage()
    def fail() -> None:
        assert gc.get_freeze_count() > 0
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail()
        assert gc.get_freeze_count() == 0


def test_whoever_has_frozen_objects_keeps_them_so() -> None:
    gc.freeze()
    with only_new_garbage():
        pass
    assert gc.get_freeze_count() > 0
