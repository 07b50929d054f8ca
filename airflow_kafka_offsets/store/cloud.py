# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A checkpoint location on S3, Google Cloud Storage or Azure. obstore's put of mode ``create`` is the only lock.

What obstore does not hide is handled here:

- An answer that was lost makes obstore's own retry report that the object exists. Then the bytes decide.
- S3 reports two writes at one moment (409) in the same way, and then there need be no object: create again.
- A store that does not know the condition ignores it. So the first object is created twice, to be refused once.
- A missing bucket reads as a missing object. Only a listing is refused, so one listing has to succeed first.
- obstore does not survive a fork: the child's first request would hang, and so would the parent's next one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from airflow_kafka_offsets.errors import StoreUnavailable, clean_text
from airflow_kafka_offsets.store.protocol import require_inside, require_size, unavailable

T = TypeVar("T")
CLIENT_OPTIONS: dict[str, Any] = {
    "timeout": "20s",  # of one request
    "connect_timeout": "5s",
    "allow_http": True,  # where an endpoint says http://, and nowhere else
}
RETRY_CONFIG: dict[str, Any] = {
    "max_retries": 12,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_FINAL = re.compile(r"status code: 4(?!08|09|25|29)")  # of HTTP: time alone does not change the answer
# The connection broke off, and obstore, which asks again to read, has not asked again: it was to write or to remove.
_BROKE_OFF = re.compile(r"retries: 0,.*kind: Interrupted", re.DOTALL)
_TRIES = 4
_fork = {"used": False, "forked": False}


def _in_child() -> None:
    _fork["forked"] = _fork["used"]


os.register_at_fork(after_in_child=_in_child)


class CloudStore:
    """See :class:`~airflow_kafka_offsets.store.protocol.Store`.

    :param store: an ``S3Store``, ``GCSStore`` or ``AzureStore`` of obstore whose prefix is the folder.
    """

    is_remote = True

    def __init__(self, uri: str, driver_uri: str, store: Any) -> None:
        self.uri = uri
        self.driver_uri = driver_uri
        self._store = store
        self._is_there = self._is_exclusive = False

    def create(self, name: str, data: bytes) -> bool:
        require_size(self, "write", name, len(data))
        for attempt in range(_TRIES):
            try:
                self._put(name, data)
                self._require_exclusive(name, data)
                return True
            except FileNotFoundError as error:
                raise self._no_bucket("write", name, error) from None
            except AlreadyExistsError:
                self._is_exclusive = True
                if (there := self.get(name)) is not None:
                    return there == data
                _pause(attempt)
        raise unavailable(self, "write", name, "the store answers that the object exists, and that it does not")

    def get(self, name: str) -> bytes | None:
        try:
            found = self._ask("read", name, lambda: obstore.get(self._store, name))
            require_size(self, "read", name, found.meta["size"])
            return self._ask("read", name, lambda: bytes(found.bytes()))
        except FileNotFoundError:
            self._require_bucket("read", name)
            return None

    def list(self, folder: str) -> list[str]:
        found = self._ask("list", folder, lambda: obstore.list_with_delimiter(self._store, folder or None))
        self._is_there = True
        names = [entry["path"].rpartition("/")[2] for entry in found["objects"]]
        return sorted([*names, *(f"{path.rpartition('/')[2]}/" for path in found["common_prefixes"])])

    def delete(self, name: str) -> None:
        try:
            self._ask("remove", name, lambda: obstore.delete(self._store, name))
        except FileNotFoundError:  # S3 does not report it
            self._require_bucket("remove", name)

    def _put(self, name: str, data: bytes) -> None:
        self._ask("write", name, lambda: obstore.put(self._store, name, data, mode="create"))

    def _require_exclusive(self, name: str, data: bytes) -> None:
        """Ask once whether the store would refuse the same name again.

        :raises StoreUnavailable: it ignores the condition, and of two writers both would win.
        """
        if not self._is_exclusive:
            with suppress(AlreadyExistsError):
                self._put(name, data)
                reason = "it accepted one name twice: it ignores the header If-None-Match: *"
                raise unavailable(self, "write", name, reason, retriable=False)
            self._is_exclusive = True

    def _ask(self, verb: str, name: str, request: Callable[[], T], attempt: int = 0) -> T:
        """The answer. ``FileNotFoundError`` and ``AlreadyExistsError`` are answers, too."""
        require_inside(self, verb, name)
        if _fork["forked"]:
            reason = (
                "this process was forked after its parent had used a checkpoint location. obstore would hang. "
                "Start the process by spawn, or use the location in the child only"
            )
            raise unavailable(self, verb, name, reason, retriable=False)
        _fork["used"] = True
        try:
            return request()
        except (FileNotFoundError, AlreadyExistsError):
            raise
        except BaseError as error:
            if attempt + 1 < _TRIES and _BROKE_OFF.search(str(error)):
                _pause(attempt)
                return self._ask(verb, name, request, attempt + 1)
            if verb == "list" and "404 Not Found" in str(error):
                raise self._no_bucket(verb, name, error) from None
            raise unavailable(self, verb, name, words(error), retriable=not _FINAL.search(str(error))) from None

    def _require_bucket(self, verb: str, name: str) -> None:
        """:raises StoreUnavailable: the object is missing because its bucket is."""
        if not self._is_there:
            self.list(name.rpartition("/")[0])

    def _no_bucket(self, verb: str, name: str, error: Exception) -> StoreUnavailable:
        reason = f"its bucket or container does not exist, and is not created ({words(error)})"
        return unavailable(self, verb, name, reason, retriable=False)


def _pause(attempt: int) -> None:
    """Give a server time that has contradicted itself, or broken off a connection."""
    time.sleep(0.2 * 2**attempt)


def words(error: BaseException) -> str:
    """What the store said, on one line: without the Rust structure that repeats it, and of XML the code alone."""
    said, _, xml = str(error).partition("\n\nDebug source")[0].partition("<?xml")
    code = re.search(r"<Code>(\w+)</Code>", xml)
    return clean_text(" ".join(f"{said} {code[1] if code else ''}".split()))[:500]
