"""Amazon's, Google's and Azure's file systems of fsspec, made to do what the work store asks of them and no more.

That of HDFS is our own, and does no more: see ``web_hdfs``.

Left alone, Google's and Azure's ask again by themselves: after so long that the store's own limit for one request is
over before, so that the reason (503, a token that is not valid any more) is lost. And gcsfs asks by gRPC what type of
bucket it is before it writes, for up to a minute where only HTTPS gets through.

Amazon's and Azure's folders are listed by requests to the two. s3fs' own listing also lists the folder above of what it
does not find, with all that is there. adlfs lists a folder by its name without the ``/``, and then looks into each one
whose name begins so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MethodType
from typing import Any, cast

from airflow_kafka_offsets.stores.location import HDFS
from airflow_kafka_offsets.stores.store import MOST_AT_ONCE

Entry = Mapping[str, Any]
"""``name``, with the bucket, and ``type``: ``file`` or ``directory``; as fsspec has them."""
MOST_PAGES = 10_000  # of a thousand names each; ``store.MOST_NAMES`` is less


def for_store(kind: str, file_system: Any) -> Any:
    """The same file system, as the store needs it. It is the store's own: others keep theirs as it was."""
    if kind == "gs":
        return _google(file_system)
    if kind == "abfs":
        return _azure(file_system)
    if kind in HDFS:
        return file_system
    file_system.config_kwargs.setdefault("max_pool_connections", MOST_AT_ONCE)  # its own limit is 10
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

    :param timeout: seconds for one request, as of fsspec's own methods.
    :raises FileNotFoundError: there is no such bucket; Google's also where the folder is absent.
    """
    if kind in HDFS:
        return cast("Iterable[Entry]", file_system.ls(path, timeout=timeout))
    file_system.invalidate_cache()
    if kind == "gs":
        return cast("Iterable[Entry]", file_system.ls(path, detail=True, timeout=timeout))
    bucket, _, folder = path.partition("/")
    list_it = _list_bucket if kind == "s3" else _list_container
    names = list_it(file_system, bucket, f"{folder}/" if folder else "", timeout)
    return [{"name": f"{bucket}/{name}", "type": "directory" if name.endswith("/") else "file"} for name in names]


def _list_bucket(file_system: Any, bucket: str, prefix: str, timeout: float) -> list[str]:
    """Each page is a request of its own, as in s3fs: aiobotocore's paginator may end at a page that failed."""
    asked = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/"}
    names: list[str] = []
    for _ in range(MOST_PAGES):
        page = file_system.call_s3("list_objects_v2", **asked, timeout=timeout)
        names += [entry["Prefix"] for entry in page.get("CommonPrefixes", ())]
        names += [entry["Key"] for entry in page.get("Contents", ())]
        if not page.get("IsTruncated"):
            return names
        asked["ContinuationToken"] = page["NextContinuationToken"]
    raise OSError(f"the folder has more than {MOST_PAGES} pages")


def _list_container(file_system: Any, container: str, prefix: str, timeout: float) -> list[str]:
    from fsspec.asyn import sync

    async def names() -> list[str]:
        client = file_system.service_client.get_container_client(container)
        listing = client.walk_blobs(name_starts_with=prefix, include=["metadata"])
        return [entry.name async for entry in listing if not _is_mark_of_folder(entry)]

    return cast("list[str]", sync(file_system.loop, names, timeout=timeout))


def _is_mark_of_folder(entry: Any) -> bool:
    """An empty object that Hadoop's driver leaves for a folder, by the folder's name."""
    metadata = getattr(entry, "metadata", None) or {}
    return any(name.lower() == "hdi_isfolder" for name in metadata)
