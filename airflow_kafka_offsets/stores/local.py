"""A work store in a local folder: for one machine, or for a disk that all machines share."""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from airflow_kafka_offsets.stores.store import (
    DRAFT,
    LARGEST_OBJECT,
    all_names,
    leads_elsewhere,
    require_inside,
    unavailable,
)

_TRIES = 100  # at a folder that others empty, and so remove, meanwhile


class LocalStore:
    """:class:`~airflow_kafka_offsets.stores.store.Store` below ``root``, which is made when it is first written to."""

    is_remote = False

    def __init__(self, root: Path, uri: str | None = None) -> None:
        self.root = root
        self.uri = self.driver_uri = uri or str(root)

    def create(self, name: str, data: bytes) -> bool:
        path = self._path("write", name)
        try:
            # A file is visible while it is written: so it is written under another name, and linked to its own whole.
            draft = path.with_name(f".{uuid.uuid4().hex}{DRAFT}")
            try:
                self._write(draft, data)
                os.link(draft, path)
            finally:
                draft.unlink(missing_ok=True)
        except FileExistsError:
            return path.is_file() and self.get(name) == data
        except OSError as error:
            raise unavailable(self.uri, "write", name, f"{type(error).__name__}: {error}") from error
        return True

    def _path(self, verb: str, name: str) -> Path:
        """Where ``name`` is.

        :raises StoreUnavailable: outside of this folder: by its own parts, or by a symbolic link on the way.
        """
        path = self.root / require_inside(self.uri, verb, name)
        try:
            real = path.resolve()
        except (OSError, RuntimeError) as error:  # links in a circle, a name that is too long
            raise unavailable(self.uri, verb, name, f"{type(error).__name__}: {error}") from None
        if not real.is_relative_to(self.root.resolve()):
            raise leads_elsewhere(self.uri, verb, name)
        return path

    def _write(self, draft: Path, data: bytes) -> None:
        for left in reversed(range(_TRIES)):
            try:
                draft.parent.mkdir(parents=True, exist_ok=True)
                with draft.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                return
            except (FileExistsError, FileNotFoundError) as error:  # somebody removed the empty folder in between
                if not left or any(folder.is_file() for folder in draft.parents):
                    raise NotADirectoryError(*error.args) from error

    def get(self, name: str) -> bytes | None:
        path = self._path("read", name)
        try:
            # A pipe that somebody has put here is not waited for.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise OSError("it is no file")
                return file.read(LARGEST_OBJECT + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unavailable(self.uri, "read", name, f"{type(error).__name__}: {error}") from error

    def list(self, folder: str) -> list[str]:
        path = self._path("list", folder)
        try:
            with os.scandir(path) as found:
                entries = all_names(found, self.uri, folder)
            names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise unavailable(self.uri, "list", folder, f"{type(error).__name__}: {error}") from error
        return sorted(name for name in names if not name.endswith(DRAFT))

    def delete(self, name: str) -> None:
        path = self._path("remove", name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise unavailable(self.uri, "remove", name, f"{type(error).__name__}: {error}") from error
        for parent in list(path.parents)[: name.count("/")]:  # an object store has no empty folders either
            with suppress(FileNotFoundError):
                try:
                    parent.rmdir()
                except OSError:
                    return
