"""Write-once objects: JSON that ends in a digest, created exclusively, numbered in the order of their writing.

What must stay true: an object without a valid digest was never written (a writer that died half-way, a full disk), so
the one before it counts; a valid object never changes; of two writers of one number exactly one wins, because the file
system or the object store creates a name only once. A store that cannot do that is refused, not worked around.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from airflow_kafka_offsets.errors import StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")
_DIGEST = re.compile(r',"sha256":"([0-9a-f]{64})"}$')
_LONGEST_NAME = 200  # bytes; most file systems end at 255


def encode(value: dict[str, Any]) -> bytes:
    """Compact JSON whose last member, ``sha256``, digests everything before it."""
    body = json.dumps(value, separators=(",", ":"), sort_keys=False)[:-1]
    return f'{body},"sha256":"{hashlib.sha256(body.encode()).hexdigest()}"}}'.encode()


def decode(data: bytes) -> dict[str, Any] | None:
    """The value, or ``None`` where the digest is missing or wrong: half-written, or altered."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    found = _DIGEST.search(text)
    if not found or hashlib.sha256(text[: found.start()].encode()).hexdigest() != found[1]:
        return None
    value: dict[str, Any] = json.loads(text)
    del value["sha256"]
    return value


def safe_name(text: str) -> str:
    """``text`` as one path component that any file system, object store and Hadoop take (no ``:``, ``/``, ``%``-less).

    Different texts give different names; a very long one is cut and told apart by its digest, after a ``%2D``, which
    nothing else is encoded as.
    """
    name = quote(text, safe="+=@,").replace(".", "%2E") if set(text) <= {"."} else quote(text, safe="+=@,")
    if len(name) <= _LONGEST_NAME:
        return name or "%2D"
    return f"{name[:150]}%2D{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class Numbered:
    """One object of a series: its number, its name below the store's root, and its value."""

    number: int
    name: str
    value: dict[str, Any]


@dataclass(frozen=True)
class StoredFile:
    """A file as the store has it. ``modified_ms``: ``None`` where the store does not tell."""

    name: str
    size: int
    modified_ms: int | None


class WorkStore:
    """Series of write-once objects below ``root``.

    :param root: a ``pathlib.Path``, Airflow's ``ObjectStoragePath`` or any path object like them.
    :param uri: what people call it, for messages and for the Spark job's arguments.
    """

    def __init__(self, root: Any, uri: str) -> None:
        self.root = root
        self.uri = uri

    def series(self, folder: str, stem: str, *, without: Collection[int] = ()) -> list[Numbered]:
        """The valid objects ``<stem>.<number>.json`` in ``folder``, by number; invalid ones are passed over, and said.

        :param without: numbers that are not looked at.
        :raises StoreUnavailable: the store cannot be read.
        """
        return list(self._valid(folder, stem, without=without))

    def newest_first(self, folder: str, stem: str) -> Iterator[Numbered]:
        """The valid objects of a series from the newest on, each read when it is asked for."""
        return self._valid(folder, stem, newest_first=True)

    def numbers(self, folder: str, stem: str) -> list[int]:
        """The numbers that are taken, by valid objects and by half-written ones."""
        return [number for number, _ in self._names(folder, stem)]

    def read(self, name: str) -> dict[str, Any] | None:
        """The value of one object; ``None`` where it does not exist or has no valid digest."""
        try:
            return decode((self.root / name).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unavailable("read", name, error) from error

    def create(self, name: str, value: dict[str, Any]) -> bool:
        """Write ``name`` if nobody has, and read it back; ``False`` if somebody has.

        :raises StoreUnavailable: it cannot be written, or does not read back as it was written.
        """
        path = self.root / name
        data = encode(value)
        try:
            _make_folder(path.parent)
            _create_exclusively(path, data)
            written = path.read_bytes()
        except FileExistsError:
            return False
        except (OSError, ValueError, NotImplementedError) as error:
            raise self._unavailable("write", name, error) from error
        if written != data:
            raise self._unavailable("write", name, OSError("it does not read back as it was written"))
        return True

    def files(self, folder: str) -> list[StoredFile]:
        """Everything directly in ``folder`` that is no folder, valid or not, sorted by name."""
        found = []
        for child in self._children(folder):
            name = f"{folder}/{child.name}"
            try:
                if not child.is_dir():
                    status = child.stat()
                    found.append(StoredFile(name, status.st_size, int(status.st_mtime * 1000) or None))
            except FileNotFoundError:  # somebody removed it since
                continue
            except OSError as error:
                raise self._unavailable("look at", name, error) from error
        return found

    def folders(self, folder: str) -> list[str]:
        """The folders directly in ``folder``, sorted, by their names below the root."""
        return [f"{folder}/{child.name}" for child in self._children(folder) if child.is_dir()]

    def remove(self, name: str) -> None:
        """Remove one object, and its folder if that was the last thing in it; nothing happens where it is gone."""
        path = self.root / name
        try:
            path.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unavailable("remove", name, error) from error
        # Of the local file system only: an object store has no folders, and fsspec's rmdir removes what is in them.
        for parent in list(path.parents)[: name.count("/")] if type(path) is type(Path()) else []:
            try:
                parent.rmdir()
            except OSError:  # not empty
                return

    def append(self, folder: str, stem: str, value: dict[str, Any]) -> Numbered:
        """Write the next object of a series, whatever number it gets."""
        while True:
            number = max(self.numbers(folder, stem), default=0) + 1
            name = f"{folder}/{stem}.{number}.json"
            if self.create(name, value):
                return Numbered(number, name, value)

    def first(self, folder: str, stem: str, value: dict[str, Any]) -> Numbered:
        """The first valid object of a series: the one that is there, or ``value``, or a faster writer's.

        A slower writer always gets the faster one's: a number is created once, and whole. Past an object without a
        valid digest the next number is taken; nothing can make that one valid again.
        """
        while True:
            taken = self.numbers(folder, stem)  # before the look: else a writer between the two would be passed over
            valid = self.series(folder, stem)
            if valid:
                return valid[0]
            self.create(f"{folder}/{stem}.{max(taken, default=0) + 1}.json", value)

    def _valid(
        self, folder: str, stem: str, *, newest_first: bool = False, without: Collection[int] = ()
    ) -> Iterator[Numbered]:
        for number, name in sorted(self._names(folder, stem), reverse=newest_first):
            if number in without:
                continue
            value = self.read(name)
            if value is None:
                log.warning("%s/%s was never written completely (no valid digest) and does not count", self.uri, name)
            else:
                yield Numbered(number, name, value)

    def _names(self, folder: str, stem: str) -> list[tuple[int, str]]:
        pattern = re.compile(re.escape(stem) + r"\.(\d+)\.json")
        matches = ((pattern.fullmatch(name), name) for name in self._list(folder))
        return sorted((int(match[1]), f"{folder}/{name}") for match, name in matches if match)

    def _list(self, folder: str) -> Iterator[str]:
        return (child.name for child in self._children(folder))

    def _children(self, folder: str) -> list[Any]:
        try:
            return sorted((self.root / folder).iterdir(), key=lambda child: str(child.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unavailable("list", folder, error) from error

    def _unavailable(self, verb: str, name: str, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"Cannot {verb} {name} in the work store {self.uri}",
            f"{type(error).__name__}: {error}",
            "Check that the work store exists, has room, and is writable from here. It must be the same place for all "
            "workers and for the Spark driver: a local folder works on one machine only.",
            retriable=True,
        )


def _make_folder(folder: Any) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # a file in its place, which is not the object's "somebody was faster"
        raise NotADirectoryError(*error.args) from error


def _create_exclusively(path: Any, data: bytes) -> None:
    """Create ``path`` whole or not at all; ``FileExistsError`` if it is there.

    An object store publishes an object when it is closed. A local file is visible while it is written, so a slow writer
    could be taken for a dead one: it is written under another name first and linked to its own when complete.
    """
    if not isinstance(path, Path):
        with path.open("xb") as file:
            file.write(data)
        return
    draft = path.with_name(f".{uuid.uuid4().hex}.draft")
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def open_work_store(uri: str) -> WorkStore:
    """The work store at ``uri`` without Airflow: a local folder by ``pathlib``, anything else by ``universal_pathlib``.

    An Airflow connection in the URI (``s3://my_conn@bucket/…``) is dropped: the Spark driver has its own credentials.

    :raises StoreUnavailable: the package for that kind of store is not installed here.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return WorkStore(Path(uri), uri)
    if scheme == "file":
        return WorkStore(Path(rest), uri)
    try:
        from upath import UPath

        return WorkStore(UPath(f"{scheme}://{rest.rpartition('@')[2]}"), uri)
    except (ImportError, ValueError) as error:
        raise StoreUnavailable(
            f"Cannot open the work store {uri}",
            f"{type(error).__name__}: {error}",
            f"Install universal-pathlib and fsspec's package for {scheme}:// where the Spark driver runs.",
        ) from error


def of_known_version(store: WorkStore, name: str, read: Callable[[dict[str, Any]], T], value: dict[str, Any]) -> T:
    """``value`` as ``read`` understands it.

    :raises StoreUnavailable: another version of this package has written it.
    """
    try:
        return read(value)
    except ValueError as error:
        raise StoreUnavailable(
            f"Cannot use {name} in the work store {store.uri}",
            str(error),
            "Use the version of airflow-kafka-offsets that wrote it, here and where the Spark driver runs.",
        ) from error
