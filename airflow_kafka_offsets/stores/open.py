"""A work store's URI → the store, with the credentials that this machine has: at a terminal, in a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable, named
from airflow_kafka_offsets.stores.file_systems import for_store
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.location import HDFS, Location, location_of
from airflow_kafka_offsets.stores.object_store import ObjectStore, refused
from airflow_kafka_offsets.stores.store import Store

_NEEDED = {
    **{kind: f"'airflow-kafka-offsets[{extra}]'" for kind, extra in (("s3", "s3"), ("gs", "gcs"), ("abfs", "azure"))},
    **dict.fromkeys(HDFS, "requests"),
}


def open_store(uri: str, file_system: Callable[[Location], Any] | None = None) -> Store:
    """The work store at ``uri``.

    :param file_system: opens fsspec's file system for an object store; by default with this machine's credentials.
    :raises InvalidRequest: a scheme that no store is for, or a connection where there is no Airflow.
    :raises StoreUnavailable: the package for this kind of store is not installed.
    """
    location = location_of(uri)
    if location.kind == "file":
        return LocalStore(Path(location.root), uri)
    try:
        found = (file_system or machines_file_system)(location)
        return ObjectStore(for_store(location.kind, found), location)
    except ImportError as error:
        raise missing_package(location, error) from error
    except ValueError as error:  # of the libraries: an account or a key that is missing or has another form
        raise refused("open", location, error) from None


def machines_file_system(location: Location) -> Any:
    """fsspec's file system with the credentials that its library finds by itself.

    :raises InvalidRequest: the URI names a connection, which only Airflow has; or it needs one.
    """
    if location.kind == "hdfs":
        name, folder = location.bucket.partition(":")[0], location.root.removeprefix(location.bucket)
        raise InvalidRequest(
            (
                f"work_store {location.uri} does not say where the name nodes' WebHDFS is. In Airflow name a "
                f"connection whose host and port say so: hdfs://CONNECTION@{location.root}. Or write the URI of the "
                f"same folder that does: webhdfs://{name}:9870{folder}.",
            )
        )
    if location.connection is not None:
        raise InvalidRequest(
            (
                f"{named('work_store')} {location.uri} names the connection {location.connection!r}, and there is no "
                "Airflow here to look it up: leave it out, and set the store's own environment variables.",
            )
        )
    if location.kind in HDFS:
        from airflow_kafka_offsets.stores.web_hdfs import web_hdfs

        return web_hdfs(location)
    import fsspec

    account = {"account_name": location.account} if location.account else {}
    return fsspec.filesystem(location.kind, **account)


def missing_package(location: Location, error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"Cannot open the work store {location.uri}",
        f"{type(error).__name__}: {error}",
        f"Install what it needs here: pip install {_NEEDED[location.kind]}.",
    )
