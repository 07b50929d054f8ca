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
