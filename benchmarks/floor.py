"""The protocol's floor: Kafka's own requests over plain sockets, one to each broker, built, parsed and nothing else.

What look-ups of this many partitions cost whoever asks. Written first and then left alone: a plan is measured as a
multiple of it. It retries nothing and checks each error code. The versions are the last ones whose
encoding has no tagged fields; Kafka 3.9 to 4.x speak them. Format: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping
from itertools import groupby
from types import TracebackType
from typing import Self

Partition = tuple[str, int]

LOG_START, LOG_END = -2, -1
_LIST_OFFSETS, _METADATA, _OFFSET_FETCH, _FIND_COORDINATOR = 2, 3, 9, 10
_VERSIONS = {_LIST_OFFSETS: 5, _METADATA: 5, _OFFSET_FETCH: 5, _FIND_COORDINATOR: 1}


class Floor:
    """Connections to a cluster, open from the first request on."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
        self._first = _Connection(host, int(port))
        self._brokers: dict[int, _Connection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._coordinators: dict[str, _Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for connection in (self._first, *self._brokers.values(), *self._coordinators.values()):
            connection.close()

    def plan(self, group: str) -> None:
        """What a plan has to ask: topics, log starts, ends, and what the group holds."""
        leaders = {p: leader for p, leader in self.metadata().items() if not p[0].startswith("__")}
        self.offsets(leaders, LOG_START)
        self.offsets(leaders, LOG_END)
        self.committed(group, leaders)

    def metadata(self) -> dict[Partition, int]:
        """Each partition's leader."""
        answer = self._first.ask(_METADATA, struct.pack(">ib", -1, 0))
        answer.skip(4)
        self._addresses = {}
        for _ in range(answer.int32()):
            node = answer.int32()
            self._addresses[node] = answer.string() or "", answer.int32()
            answer.string()
        answer.string()
        answer.skip(4)
        leaders: dict[Partition, int] = {}
        for _ in range(answer.int32()):
            _check(answer.int16())
            name = answer.string() or ""
            answer.skip(1)
            for _ in range(answer.int32()):
                _check(answer.int16())
                number = answer.int32()
                leaders[name, number] = answer.int32()
                for _ in range(3):  # replicas, those in sync, those offline
                    answer.skip(4 * answer.int32())
        return leaders

    def offsets(self, leaders: Mapping[Partition, int], at: int) -> dict[Partition, int]:
        """The offset of each partition at ``LOG_START``, ``LOG_END`` or a time in milliseconds; read uncommitted."""
        by_broker: dict[int, list[Partition]] = {}
        for partition, leader in leaders.items():
            by_broker.setdefault(leader, []).append(partition)
        asked = {leader: _list_offsets(partitions, at) for leader, partitions in by_broker.items()}
        for leader, body in asked.items():
            self._broker(leader).send(_LIST_OFFSETS, body)
        found: dict[Partition, int] = {}
        for leader in asked:
            answer = self._broker(leader).receive()
            answer.skip(4)
            for _ in range(answer.int32()):
                name = answer.string() or ""
                for number, error, _time, offset, _epoch in answer.rows(">ihqqi"):
                    _check(error)
                    found[name, number] = offset
        return found

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """What the group holds; -1 where nothing."""
        body = _string(group) + _topics(partitions, lambda number: struct.pack(">i", number))
        answer = self._coordinator(group).ask(_OFFSET_FETCH, body)
        answer.skip(4)
        found: dict[Partition, int] = {}
        for _ in range(answer.int32()):
            name = answer.string() or ""
            for _ in range(answer.int32()):
                number, offset, _epoch = answer.take(">iqi")
                answer.string()
                _check(answer.int16())
                found[name, number] = offset
        _check(answer.int16())
        return found

    def _broker(self, node: int) -> _Connection:
        if node not in self._brokers:
            self._brokers[node] = _Connection(*self._addresses[node])
        return self._brokers[node]

    def _coordinator(self, group: str) -> _Connection:
        if group not in self._coordinators:
            answer = self._first.ask(_FIND_COORDINATOR, _string(group) + b"\0")
            answer.skip(4)
            _check(answer.int16())
            answer.string()
            answer.skip(4)
            self._coordinators[group] = _Connection(answer.string() or "", answer.int32())
        return self._coordinators[group]


def _list_offsets(partitions: Iterable[Partition], at: int) -> bytes:
    return struct.pack(">ib", -1, 0) + _topics(partitions, lambda number: struct.pack(">iiq", number, -1, at))


def _topics(partitions: Iterable[Partition], row: object) -> bytes:
    assert callable(row)
    topics = []
    for name, group in groupby(sorted(partitions), key=lambda partition: partition[0]):
        rows = [row(number) for _, number in group]
        topics.append(_string(name) + struct.pack(">i", len(rows)) + b"".join(rows))
    return struct.pack(">i", len(topics)) + b"".join(topics)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _check(error: int) -> None:
    if error:
        raise OSError(f"the broker answers error {error}")


class _Connection:
    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=60.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def ask(self, api: int, body: bytes) -> _Answer:
        self.send(api, body)
        return self.receive()

    def send(self, api: int, body: bytes) -> None:
        request = struct.pack(">hhi", api, _VERSIONS[api], 1) + _string("floor") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)

    def receive(self) -> _Answer:
        (size,) = struct.unpack(">i", self._exactly(4))
        return _Answer(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        buffer = bytearray(size)
        view, at = memoryview(buffer), 0
        while at < size:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise OSError("the broker has closed the connection")
            at += got
        return bytes(buffer)


class _Answer:
    """What is read from one response, from its beginning on, without the correlation id."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 4

    def skip(self, size: int) -> None:
        self._at += size

    def take(self, layout: str) -> tuple[int, ...]:
        found = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return found

    def int16(self) -> int:
        return self.take(">h")[0]

    def int32(self) -> int:
        return self.take(">i")[0]

    def string(self) -> str | None:
        size = self.int16()
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def rows(self, layout: str) -> Iterable[tuple[int, ...]]:
        """An array of rows of one size."""
        size = self.int32() * struct.calcsize(layout)
        self._at += size
        return struct.iter_unpack(layout, self._data[self._at - size : self._at])
