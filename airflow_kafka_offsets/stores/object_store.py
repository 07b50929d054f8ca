"""A work store on S3, Google Cloud Storage or Azure, through fsspec's file systems, which Airflow's connections open.

One on HDFS is like them, through a file system of our own. One conditional request carries it:
``pipe_file(mode="create")`` sends ``If-None-Match: *`` (S3, Azure), ``ifGenerationMatch=0`` (Google) or
``renameoptions=NONE`` (HDFS), and of two writers of one name exactly one wins. Nothing is made unasked: no bucket out
of a typing mistake. Nothing is remembered: fsspec's cache of listings would hide what other processes create.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.stores.file_systems import Entry, list_folder
from airflow_kafka_offsets.stores.location import Location
from airflow_kafka_offsets.stores.many_of_s3 import ManyOfS3
from airflow_kafka_offsets.stores.store import (
    LARGEST_OBJECT,
    all_names,
    get_each,
    list_each,
    require_inside,
    unavailable,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

DEADLINE_S = 60.0  # of one verb, with all that is tried again
TRY_S = 20.0  # one request; an answer that is later than this is none
MOST_TRIES = 1_000  # of one verb, whatever its deadline
_TRIED_AGAIN = {408, 409, 425, 429}  # 409: S3's answer to two conditional writes at one moment; look again
_NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "DefaultCredentialsError",
    "ClientAuthenticationError",
    "CredentialUnavailableError",
}
_SECRET = re.compile(r"((?:sig|signature|token|x-amz-[a-z-]+|accountkey)=)[^&\s\"']+", re.IGNORECASE)


class ObjectStore:
    """:class:`~airflow_kafka_offsets.stores.store.Store` below a bucket's folder.

    :param file_system: an ``AsyncFileSystem`` of fsspec: s3fs, gcsfs or adlfs; or a ``WebHdfs``.
    :param deadline_s: how long one verb is tried where the store does not answer, or is too busy.
    :param try_s: how long one request is waited for.
    """

    is_remote = True

    def __init__(
        self, file_system: Any, location: Location, deadline_s: float = DEADLINE_S, try_s: float = TRY_S
    ) -> None:
        self.uri = location.uri
        self.driver_uri = location.for_spark(getattr(file_system, "account_name", None))
        self._fs = file_system
        self._location = location
        self._deadline_s, self._try_s = deadline_s, try_s
        self._bucket_is_there = False
        self._many = ManyOfS3(file_system) if location.kind == "s3" else None

    def create(self, name: str, data: bytes) -> bool:
        def once() -> bool:
            try:
                self._call(self._fs.pipe_file, self._path(name), data, mode="create")
            except FileExistsError:
                # The answer to the request before this one may be lost, and the object its own.
                try:
                    return self._read(name) == data
                except FileNotFoundError:  # deleted meanwhile; or Azure's 409 of another meaning
                    raise ConnectionError("the object was there, and is not") from None  # whose 412 is final
            return True

        try:
            return self._ask("write", name, once)
        except FileNotFoundError as error:
            raise self._no_bucket("write", name, error) from error

    def get(self, name: str) -> bytes | None:
        try:
            return self._ask("read", name, lambda: self._read(name))
        except FileNotFoundError as error:
            self._require_bucket("read", name, error)
            return None

    def get_all(self, names: Sequence[str]) -> list[bytes | None]:
        paths = list(map(self._path, names))
        found = self._many.read(paths, LARGEST_OBJECT + 1, self._deadline_s) if self._many else [None] * len(paths)
        left = [name for name, one in zip(names, found, strict=True) if one is None]
        again = iter(get_each(self, left))
        return [next(again) if one is None else one for one in found]

    def list_below(self, folder: str) -> list[str]:
        found = self._many.list_below(self._path(folder), self._deadline_s) if self._many else None
        if found is None:
            return list_each(self, folder)
        return sorted(name[len(self._location.root) + 1 :] for name in all_names(found, self.uri, folder))

    def list(self, folder: str) -> list[str]:
        path = self._path(folder)
        try:
            entries = self._ask("list", folder, lambda: self._ls(path))
        except FileNotFoundError as error:
            self._require_bucket("list", folder, error)
            return []
        found = all_names(entries, self.uri, folder)
        names = [(entry["name"].rstrip("/"), entry["type"] == "directory") for entry in found]
        return sorted(
            f"{name.rpartition('/')[2]}/" if is_folder else name.rpartition("/")[2]
            for name, is_folder in names
            if name.startswith(f"{path}/")  # a name that is an object's own is listed as itself
        )

    def delete(self, name: str) -> None:
        try:
            self._ask("remove", name, lambda: self._call(self._fs.rm_file, self._path(name)))
        except FileNotFoundError as error:
            self._require_bucket("remove", name, error)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _path(self, name: str) -> str:
        return f"{self._location.root}/{require_inside(self.uri, 'use', name)}".rstrip("/")

    def _read(self, name: str) -> bytes:
        # One piece: s3fs would ask for the size first, to read several at once.
        path, end = self._path(name), LARGEST_OBJECT + 1
        return cast(bytes, self._call(self._fs.cat_file, path, start=0, end=end, max_concurrency=1))

    def _ls(self, path: str) -> Iterable[Entry]:
        return cast("Iterable[Entry]", self._call(list_folder, self._location.kind, self._fs, path))

    def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, timeout=self._try_s, **options)
        except Exception as error:
            if 416 in map(_status_of, _causes(error)):  # a part of an empty object was asked for
                return b""
            if _status_of(error) == 404:  # of a library that has no FileNotFoundError for a missing bucket
                raise FileNotFoundError(str(error)) from error
            raise

    def _ask(self, verb: str, name: str, once: Callable[[], T]) -> T:
        """Ask until there is an answer; ``FileNotFoundError`` is one.

        :raises StoreUnavailable: the answer is a refusal, or there was none before the deadline.
        """
        end = time.monotonic() + self._deadline_s
        for tries in range(MOST_TRIES):
            try:
                found = once()
            except FileNotFoundError:
                raise
            except Exception as error:
                longest_s = min(0.2 * 2**tries, 5.0)
                pause_s = random.uniform(longest_s / 2, longest_s)
                if _is_final(error) or time.monotonic() + pause_s > end:
                    raise self._unavailable(verb, name, error) from None
                log.info("Work store %s: %s; asking again in %.1f s", self.uri, _first_line(error), pause_s)
                time.sleep(pause_s)
            else:
                self._bucket_is_there = True
                return found
        raise unavailable(self.uri, verb, name, f"no answer in {MOST_TRIES} tries")

    def _require_bucket(self, verb: str, name: str, error: Exception) -> None:
        """What is not there is not there only if its bucket is."""
        if self._bucket_is_there:
            return
        try:
            self._ask(verb, name, lambda: self._ls(self._location.bucket))
        except FileNotFoundError:
            raise self._no_bucket(verb, name, error) from None
        except StoreUnavailable as denied:
            if denied.retriable:
                raise
        self._bucket_is_there = True

    def _no_bucket(self, verb: str, name: str, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"Cannot {verb} {name or '/'} in the work store {self.uri}",
            f"there is no bucket {self._location.bucket!r}: {_first_line(error)}",
            "Create it, or correct [kafka_offsets] work_store. None is made unasked.",
        )

    def _unavailable(self, verb: str, name: str, error: Exception) -> StoreUnavailable:
        if not _is_final(error):
            return unavailable(self.uri, verb, name, _first_line(error))
        return refused(f"{verb} {name or '/'} in", self._location, error)


def refused(what: str, location: Location, error: Exception) -> StoreUnavailable:
    """An answer that stays the same until somebody changes the credentials or their rights."""
    who = f"Airflow connection {location.connection!r}" if location.connection else "the credentials of this machine"
    needed = "read, write, list and remove" if what.startswith("remove ") else "read, write and list"
    return StoreUnavailable(
        f"Cannot {what} the work store {location.uri}",
        _first_line(error),
        f"Check {who}: they need the right to {needed} objects below {location.root}.",
    )


def _is_final(error: BaseException) -> bool:
    """Whether the same question gets the same answer in a moment."""
    causes = list(_causes(error))
    if any(isinstance(e, PermissionError | ValueError | TypeError | ImportError) for e in causes):
        return True
    if any(type(e).__name__ in _NO_CREDENTIALS or str(e).startswith("Forbidden") for e in causes):
        return True
    status = next((found for e in causes if (found := _status_of(e))), 500)
    return 400 <= status < 500 and status not in _TRIED_AGAIN


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _status_of(error: BaseException) -> int | None:
    """The HTTP status, as botocore, gcsfs and Azure's client keep it."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        found = getattr(error, "status_code", None) or getattr(error, "code", None)
    return int(found) if str(found).isdigit() else None


def _first_line(error: BaseException) -> str:
    """The first line of what it says, without what signs a request."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: " + _SECRET.sub(r"\1***", first)
