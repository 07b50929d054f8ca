"""The places of a plan, of offsets and of a schema that a DAG names and its worker reads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.errors import refuse
from airflow_kafka_offsets.hooks.work_store import store_of_airflow
from airflow_kafka_offsets.request.offset_maps import IN_PLACES, is_place
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.problems import Problems
from airflow_kafka_offsets.stores.saved_offsets import text_at


def with_places_read(asked: RequestParameters) -> RequestParameters:
    """``asked`` with what is there in the place of each ``@`` and a place.

    :raises InvalidRequest: one is not named from the root, does not exist, or cannot tell the offsets.
    """
    problems = Problems()
    places = {name: place[1:] for name in IN_PLACES if is_place(place := getattr(asked, name))}
    read: dict[str, Any] = {
        name: problems.take(name, partial(text_on_worker, name, place), None) for name, place in places.items()
    }
    refuse(problems)
    return replace(asked, **read)


def text_on_worker(name: str, place: str) -> str:
    """
    :raises ValueError: it is not named from the root, or is not there; a sentence that can follow ``name``.
    """
    if "://" not in place and not Path(place).is_absolute():
        raise ValueError(f"is {place!r}; give the whole path, from the root")
    return text_at(name, place, store_of_airflow)
