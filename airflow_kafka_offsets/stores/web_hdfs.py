"""HDFS by its REST API, WebHDFS, with the methods that the object store asks of a file system.

HDFS has no request that makes a whole file at once: what CREATE writes is seen before it is all there, and where its
writer is gone the half of it stays. So a file is written under a name of its own, and then named by RENAME. With
``renameoptions=NONE`` the name node does not rename to a name that is taken: of two writers exactly one wins. fsspec's
own WebHDFS has no such call: its exclusive mode looks and then writes, and its rename does not say who won.
"""

from __future__ import annotations

import getpass
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import requests

from airflow_kafka_offsets.stores.location import Location
from airflow_kafka_offsets.stores.store import DRAFT, MOST_NAMES

DEFAULT_PORT = 9870  # of a name node's WebHDFS
_STALE_S = 3600.0
_NO_RIGHT = {"AccessControlException", "AuthorizationException", "SecurityException"}
_TAKEN = "FileAlreadyExistsException"
_NOT_EMPTY = "PathIsNotEmptyDirectoryException"
_PASSES = {408, 409, 425, 429}  # of a proxy; what the name node itself says is in its RemoteException


class WebHdfs:
    """
    :param name_nodes: host and port of each one's WebHDFS; whichever is active is asked.
    :param user: who asks, by the name alone (``user.name``): Kerberos is not supported.
    :param root: the store's folder: of those below it, empty ones are removed.
    """

    def __init__(self, name_nodes: Sequence[str], user: str, root: str) -> None:
        self._name_nodes, self._user = list(name_nodes), user
        self._root = _path_of(root)
        self._active = 0

    def pipe_file(self, path: str, data: bytes, *, mode: str, timeout: float) -> None:
        """Write the whole file if there is none of this name.

        :raises FileExistsError: there may be one. An answer to RENAME that was lost may be why: what is there tells.
        """
        target = _path_of(path)
        draft = f"{target.rpartition('/')[0]}/.{uuid.uuid4().hex}{DRAFT}"  # a late request of another try has another
        try:
            self._ask("PUT", draft, "CREATE", timeout, data=data, overwrite="false")
            if self._ask("PUT", draft, "RENAME", timeout, destination=target, renameoptions="NONE").content:
                raise FileExistsError(target)  # the answer of a server that takes no options, such as HttpFS
        except BaseException as error:
            with suppress(OSError):
                self._delete(draft, timeout)
            if isinstance(error, FileNotFoundError):  # somebody has removed the draft
                raise FileExistsError(str(error)) from error
            raise

    def cat_file(self, path: str, *, start: int, end: int, max_concurrency: int, timeout: float) -> bytes:
        answer = self._ask("GET", _path_of(path), "OPEN", timeout, offset=start, length=end - start)
        content: bytes = answer.content
        return content

    def ls(self, path: str, *, timeout: float) -> list[dict[str, str]]:
        """What is in the folder, as fsspec has it, without what is being written.

        :raises FileNotFoundError: there is none.
        """
        found = self._statuses(_path_of(path), timeout)
        names = [(status["pathSuffix"], status["type"].lower()) for status in found]  # a file lists itself, as ""
        return [{"name": f"{path}/{name}", "type": kind} for name, kind in names if name and not name.endswith(DRAFT)]

    def rm_file(self, path: str, *, timeout: float) -> None:
        """Remove the file, if it is there, and then the folders that are empty: an object store has none."""
        target = _path_of(path)
        while target != self._root and self._delete(target, timeout):
            target = target.rpartition("/")[0]

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self, path: str, timeout: float) -> bool:
        """``False``: it is a folder in which something is."""
        try:
            self._ask("DELETE", path, "DELETE", timeout, recursive="false")
        except _NotEmpty:
            return self._delete_drafts(path, timeout) and self._delete(path, timeout)
        return True

    def _delete_drafts(self, folder: str, timeout: float) -> bool:
        """Remove what processes that died have left in a folder; whether there was nothing else.

        One whose draft is removed all the same, after a clock went wrong, writes it once more.
        """
        before_ms = 1000 * (time.time() - _STALE_S)
        for status in self._statuses(folder, timeout):
            if not status["pathSuffix"].endswith(DRAFT) or status["modificationTime"] > before_ms:
                return False
            self._ask("DELETE", f"{folder}/{status['pathSuffix']}", "DELETE", timeout, recursive="false")
        return True

    def _statuses(self, folder: str, timeout: float) -> Iterator[dict[str, Any]]:
        after: dict[str, Any] = {}
        for _ in range(MOST_NAMES):  # pages
            listing = self._ask("GET", folder, "LISTSTATUS_BATCH", timeout, **after).json()["DirectoryListing"]
            found = listing["partialListing"]["FileStatuses"]["FileStatus"]
            yield from found
            if not listing["remainingEntries"] or not found:
                return
            after = {"startAfter": found[-1]["pathSuffix"]}

    def _ask(self, method: str, path: str, op: str, timeout: float, data: bytes | None = None, **query: Any) -> Any:
        number = self._active
        url = f"http://{self._name_nodes[number]}/webhdfs/v1{quote(path)}"
        query = {"op": op, "user.name": self._user, **query}
        try:
            answer = requests.request(method, url, params=query, timeout=timeout, allow_redirects=method == "GET")
            if data is not None and answer.ok:  # it leads to a data node; no URL is an error
                answer = requests.put(answer.headers.get("Location", ""), data=data, timeout=timeout)
            _raise_for(answer, op)
        except (requests.RequestException, _NotActive):
            self._active = (number + 1) % len(self._name_nodes)
            raise
        return answer


class _NotEmpty(OSError): ...


class _NotActive(OSError): ...


def _raise_for(answer: requests.Response, op: str) -> None:
    """What the answer says, as one of Python's own errors; ``OSError``: in a moment it may be another one."""
    if answer.ok:
        return
    try:
        found = answer.json()["RemoteException"]
        kind, said = found["exception"], str(found.get("message", "")).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        kind, said = "", f"{op} was answered by {answer.status_code} {answer.reason}"
    if answer.status_code == 401 and "Negotiate" in answer.headers.get("WWW-Authenticate", ""):
        raise PermissionError(f"{op}: the name node asks for Kerberos, which is not supported here")
    if kind in _NO_RIGHT or answer.status_code == 401 or (not kind and answer.status_code == 403):
        raise PermissionError(said)
    if kind == "FileNotFoundException":
        raise FileNotFoundError(said)
    if kind == _TAKEN:
        raise FileExistsError(said)
    if kind == _NOT_EMPTY:
        raise _NotEmpty(said)
    if kind == "StandbyException":
        raise _NotActive(said)
    if answer.status_code == 400:
        raise ValueError(said)
    if not kind and answer.status_code < 500 and answer.status_code not in _PASSES:
        raise ValueError(f"{said}: there is no WebHDFS")  # never taken for a file that is not there
    raise OSError(f"{kind} {said}".strip())


def _path_of(name: str) -> str:
    """The object store's names begin with where it is: ``namenode:9870/folder/1.json``."""
    return "/" + name.partition("/")[2]


def web_hdfs(
    location: Location, hosts: str | None = None, port: int | None = None, login: str | None = None
) -> WebHdfs:
    """The file system that a URI and its connection lead to.

    :param hosts: of the connection: one name node or several, with commas between; by default the URI's.
    """
    name_nodes = [host.strip() for host in (hosts or location.bucket).split(",")]
    user = login or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()  # as Hadoop's own clients
    return WebHdfs(
        [host if ":" in host else f"{host}:{port or DEFAULT_PORT}" for host in name_nodes], user, location.root
    )
