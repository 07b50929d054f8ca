"""Google's and Azure's file systems of fsspec, made to do what the work store asks of them and no more.

Left alone, each asks again by itself: after so long that the store's own limit for one request is over before, so that
the reason (503, a token that is not valid any more) is lost. And gcsfs asks by gRPC what type of bucket it is before it
writes, for up to a minute where only HTTPS gets through; adlfs lists a folder by its name without the ``/``, and then
looks into each one whose name begins so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MethodType
from typing import Any


def for_store(kind: str, file_system: Any) -> Any:
    """The same file system, as the store needs it. It is the store's own: others keep theirs as it was."""
    if kind == "gs":
        return _google(file_system)
    if kind == "abfs":
        return _azure(file_system)
    return file_system


def _google(file_system: Any) -> Any:
    from gcsfs.core import GCSFileSystem

    options = {**file_system.storage_options, "use_listings_cache": False, "skip_instance_cache": True}
    made = GCSFileSystem(*file_system.storage_args, **options)
    made._request = MethodType(GCSFileSystem._request.__wrapped__, made)
    return made


def _azure(file_system: Any) -> Any:
    made = type(file_system)(*file_system.storage_args, **file_system.storage_options, skip_instance_cache=True)
    made.account_name = made.service_client.account_name  # a connection string names it too
    made.service_client._config.retry_policy.total_retries = 0
    made._lsdir = MethodType(_list_container, made)
    return made


async def _list_container(file_system: Any, path: str) -> Sequence[Mapping[str, Any]]:
    from azure.core.exceptions import ResourceNotFoundError

    container, _, folder = path.partition("/")
    client = file_system.service_client.get_container_client(container)
    listing = client.walk_blobs(name_starts_with=f"{folder}/" if folder else "", include=["metadata"])
    try:
        names = [entry.name async for entry in listing if not _is_mark_of_folder(entry)]
    except ResourceNotFoundError as error:
        raise FileNotFoundError(path) from error
    return [{"name": f"{container}/{name}", "type": "directory" if name.endswith("/") else "file"} for name in names]


def _is_mark_of_folder(entry: Any) -> bool:
    """An empty object that Hadoop's driver leaves for a folder, by the folder's name."""
    metadata = getattr(entry, "metadata", None) or {}
    return any(name.lower() == "hdi_isfolder" for name in metadata)
