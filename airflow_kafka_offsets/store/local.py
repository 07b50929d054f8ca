# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A checkpoint location in a local folder: for one machine, or on a disk that all machines share.

``link`` creates a name once, on NFS too. Objects and their names are synced to the disk before ``create`` returns. The
folder itself is never made here: on a machine where its disk is not mounted, it would look like an empty location.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.store.protocol import require_inside, require_size, unavailable

_DRAFT = ".draft"
"""What the name of a file ends with that is being written. No object's does."""


class LocalStore:
    """:class:`~airflow_kafka_offsets.store.protocol.Store` below ``root``, an absolute path."""

    is_remote = False

    def __init__(self, root: Path, uri: str | None = None) -> None:
        self.root = root
        self.uri = uri or str(root)
        self.driver_uri = f"file://{root}"

    def create(self, name: str, data: bytes) -> bool:
        require_size(self, "write", name, len(data))
        with self._at("write", name) as path:
            self._make_folder(path.parent)
            draft = path.with_name(f".{uuid.uuid4().hex}{_DRAFT}")
            try:
                with draft.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(draft, path)
            except FileExistsError:
                return path.read_bytes() == data
            finally:
                draft.unlink(missing_ok=True)
            _sync(path.parent)
            return True

    def get(self, name: str) -> bytes | None:
        with self._at("read", name) as path:
            try:
                require_size(self, "read", name, path.stat().st_size)
                return path.read_bytes()
            except FileNotFoundError:
                self._require_root()
                return None

    def list(self, folder: str) -> list[str]:
        with self._at("list", folder) as path:
            try:
                with os.scandir(path) as entries:
                    names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
            except FileNotFoundError:
                self._require_root()
                return []
            return sorted(name for name in names if not name.endswith(_DRAFT))

    def delete(self, name: str) -> None:
        with self._at("remove", name) as path:
            try:
                path.unlink()
            except FileNotFoundError:
                self._require_root()

    @contextmanager
    def _at(self, verb: str, name: str) -> Iterator[Path]:
        """The path of ``name``. Errors of the block become ``StoreUnavailable``.

        :raises StoreUnavailable: a symbolic link on the way leads out of the folder.
        """
        path = self.root / require_inside(self, verb, name)
        try:
            if not path.resolve().is_relative_to(self.root.resolve()):
                raise unavailable(self, verb, name, "a symbolic link leads out of the folder", retriable=False)
            yield path
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, until Python 3.12
            raise unavailable(self, verb, name, f"{type(error).__name__}: {error}") from error

    def _make_folder(self, folder: Path) -> None:
        if folder == self.root:
            self._require_root()
        elif not folder.is_dir():
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            _sync(folder.parent)

    def _require_root(self) -> None:
        if not self.root.is_dir():
            raise StoreUnavailable(
                f"Cannot use the checkpoint location {self.uri}",
                f"the folder {self.root} does not exist, and is not created: an unmounted disk would look empty",
                f"Mount the disk, or make the folder once: mkdir -p {self.root}",
            )


def _sync(folder: Path) -> None:
    """Sync a folder's names to the disk, or a power cut could take back an object that was created."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
