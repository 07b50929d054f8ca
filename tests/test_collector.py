"""Python's search for cycles is off while a plan is made, and afterwards as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.collector import search_put_off


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.enable()


def test_it_is_off_inside_and_on_afterwards() -> None:
    with search_put_off():
        assert not gc.isenabled()
        with search_put_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_on_again_after_an_error() -> None:
    @search_put_off()
    def fail() -> None:
        assert not gc.isenabled()
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail()
        assert gc.isenabled()


def test_whoever_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    with search_put_off():
        pass
    assert not gc.isenabled()
