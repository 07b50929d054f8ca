"""A group's committed offsets by a request of one's own over a plain socket: what a watcher can ask all the time.

Not by librdkafka, which may end the whole process where a coordinator fails under it (confluentinc/librdkafka#4605),
and not by the package under test. OffsetFetch version 5; the broker must be the group's coordinator: the only one.
"""

import socket
import struct
from collections.abc import Iterable
from typing import Self

_OFFSET_FETCH, _VERSION = 9, 5
_TIMEOUT_S = 5.0

Offsets = dict[int, tuple[int, str]]


class RawOffsets:
    """A connection to the broker at `host:port`, made anew after an error."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._socket: socket.socket | None = None

    def read(self, group: str, topic: str, partitions: Iterable[int]) -> Offsets:
        """Offset and metadata of each partition that has a commit.

        :raises OSError: no answer, or one with an error: the coordinator moves or loads.
        """
        wanted = list(partitions)
        body = _string(group) + struct.pack(">i", 1) + _string(topic)
        body += struct.pack(f">i{len(wanted)}i", len(wanted), *wanted)
        try:
            answer = self._ask(struct.pack(">hhi", _OFFSET_FETCH, _VERSION, 1) + _string("watcher") + body)
        except OSError:
            self.close()
            raise
        return _parse(answer)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: bytes) -> bytes:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_S)
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return data


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _parse(answer: bytes) -> Offsets:
    found: Offsets = {}
    at = 8  # correlation id, throttle time

    def take(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(form, answer, at)
        at += struct.calcsize(form)
        return int(value)

    def take_string() -> str:
        nonlocal at
        length = max(take(">h"), 0)
        at += length
        return answer[at - length : at].decode(errors="replace").rstrip("\0")

    for _ in range(take(">i")):
        take_string()
        for _ in range(take(">i")):
            partition, offset = take(">i"), take(">q")
            take(">i")  # leader epoch
            metadata, error = take_string(), take(">h")
            if error:
                raise OSError(f"partition {partition}: Kafka error {error}")
            if offset >= 0:
                found[partition] = (offset, metadata)
    error = take(">h")
    if error:
        raise OSError(f"Kafka error {error}")
    return found
