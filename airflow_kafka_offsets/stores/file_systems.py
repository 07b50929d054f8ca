"""Amazon's, Google's and Azure's file systems of fsspec, made to do what the work store asks of them and no more.

Left alone, Google's and Azure's ask again by themselves: after so long that the store's own limit for one request is
over before, so that the reason (503, a token that is not valid any more) is lost. And gcsfs asks by gRPC what type of
bucket it is before it writes, for up to a minute where only HTTPS gets through.

Folders are listed by Amazon's and Azure's own clients. s3fs lists the folder above of what it does not find, with all
that is there. adlfs lists a folder by its name without the ``/``, and then looks into each one whose name begins so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any

Entry = Mapping[str, Any]
"""``name``, with the bucket, and ``type``: ``file`` or ``directory``; as fsspec has them."""


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
    made._request = MethodType(GCSFileSystem._request.__wrapped__, made)  # without its six tries: docs/private-parts.md
    return made


def _azure(file_system: Any) -> Any:
    from azure.storage.blob.aio import BlobServiceClient

    made = type(file_system)(*file_system.storage_args, **file_system.storage_options, skip_instance_cache=True)
    client = made.service_client
    made.account_name = client.account_name  # a connection string names it too
    made.service_client = BlobServiceClient(client.url, credential=client.credential, retry_total=0)
    return made


def list_folder(kind: str, file_system: Any, path: str, *, timeout: float) -> Iterable[Entry]:
    """What is in the folder, with its folders.

    :param timeout: seconds, as of fsspec's own methods.
    :raises FileNotFoundError: there is no such bucket; Google's also where the folder is absent.
    """
    from fsspec.asyn import sync

    file_system.invalidate_cache()
    list_it = _LISTS.get(kind)
    if list_it is None:
        found: Iterable[Entry] = file_system.ls(path, detail=True, timeout=timeout)
        return found
    bucket, _, folder = path.partition("/")
    prefix = f"{folder}/" if folder else ""
    names: list[str] = sync(file_system.loop, list_it, file_system, bucket, prefix, timeout=timeout)
    return [{"name": f"{bucket}/{name}", "type": "directory" if name.endswith("/") else "file"} for name in names]


async def _list_bucket(file_system: Any, bucket: str, prefix: str) -> list[str]:
    await file_system.set_session()
    client = await file_system.get_s3(bucket)
    asked = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/", **file_system.req_kw}
    names: list[str] = []
    async for page in client.get_paginator("list_objects_v2").paginate(**asked):
        names += [entry["Prefix"] for entry in page.get("CommonPrefixes", ())]
        names += [entry["Key"] for entry in page.get("Contents", ())]
    return names


async def _list_container(file_system: Any, container: str, prefix: str) -> list[str]:
    client = file_system.service_client.get_container_client(container)
    listing = client.walk_blobs(name_starts_with=prefix, include=["metadata"])
    return [entry.name async for entry in listing if not _is_mark_of_folder(entry)]


def _is_mark_of_folder(entry: Any) -> bool:
    """An empty object that Hadoop's driver leaves for a folder, by the folder's name."""
    metadata = getattr(entry, "metadata", None) or {}
    return any(name.lower() == "hdi_isfolder" for name in metadata)


_LISTS: Mapping[str, Callable[..., Any]] = {"s3": _list_bucket, "abfs": _list_container}
