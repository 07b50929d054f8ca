"""A work store's URI → the store, where there is no Airflow: on a Spark driver, at a terminal."""

from __future__ import annotations

from pathlib import Path

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.store import Store


def open_store(uri: str) -> Store:
    """The work store at ``uri``: a folder's path, or ``file://`` with one.

    :raises InvalidRequest: a scheme that no store is for.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator and ":" not in uri.partition("/")[0]:
        return LocalStore(Path(uri).expanduser(), uri)
    if scheme == "file" and rest.startswith("/"):
        return LocalStore(Path(rest), uri)
    raise InvalidRequest(
        (f"The work store {uri} cannot be used: give a folder's path, or file:/// with one; no other kind is known.",)
    )
