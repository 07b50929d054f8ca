"""A network with a long delay, as a process of its own: ``python -m benchmarks.long_wire PORT HOST:PORT MILLISECONDS``.

As ``testbed.delay_proxy``, for hundreds of connections at once and delays of many milliseconds: one thread serves all
of them, so that the wire takes little of the processor. It counts whole milliseconds.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import Any

import uvloop


class End(asyncio.Protocol):
    """One end of a connection: what comes in here goes out at the other end, later and in its order."""

    def __init__(self, delay_s: float, other: End | None = None, upstream: tuple[str, int] | None = None) -> None:
        self._delay_s, self._other, self._upstream = delay_s, other, upstream
        self._on_the_wire: deque[bytes] = deque()
        self.out: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.out = transport
        if self._upstream is not None:
            self._other = End(self._delay_s, self)
            self._connecting = asyncio.ensure_future(
                asyncio.get_running_loop().create_connection(lambda: self._other or self, *self._upstream)
            )

    def data_received(self, data: bytes) -> None:
        self._later(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._later(b"")

    def _later(self, data: bytes) -> None:
        self._on_the_wire.append(data)
        asyncio.get_running_loop().call_later(self._delay_s, self._arrive)

    def _arrive(self) -> None:
        data, out = self._on_the_wire.popleft(), self._other and self._other.out
        if out is None or out.is_closing():
            return
        if data:
            out.write(data)
        else:
            out.close()


async def main(port: int, upstream: str, delay_ms: float) -> None:
    host, _, upstream_port = upstream.rpartition(":")
    make = asyncio.get_running_loop().create_server
    server = await make(lambda: End(delay_ms / 1000, upstream=(host, int(upstream_port))), "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
