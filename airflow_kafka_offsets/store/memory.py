# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A checkpoint location in the memory of this process: for laws, the model and tests, which may wrap its methods."""

from __future__ import annotations

from airflow_kafka_offsets.store.protocol import require_inside, require_size


class MemoryStore:
    """See :class:`~airflow_kafka_offsets.store.protocol.Store`. Threads may share it: each verb is one step."""

    is_remote = False

    def __init__(self, uri: str = "memory://checkpoint") -> None:
        self.uri = self.driver_uri = uri
        self.objects: dict[str, bytes] = {}

    def create(self, name: str, data: bytes) -> bool:
        require_size(self, "write", name, len(data))
        return self.objects.setdefault(require_inside(self, "write", name), data) == data

    def get(self, name: str) -> bytes | None:
        return self.objects.get(require_inside(self, "read", name))

    def list(self, folder: str) -> list[str]:
        before = f"{require_inside(self, 'list', folder)}/" if folder else ""
        rest = [name[len(before) :].partition("/") for name in [*self.objects] if name.startswith(before)]
        return sorted({head + slash for head, slash, _ in rest})

    def delete(self, name: str) -> None:
        self.objects.pop(require_inside(self, "remove", name), None)
