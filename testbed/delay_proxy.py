"""A network with a delay, as a process of its own: ``python -m testbed.delay_proxy PORT HOST:PORT MILLISECONDS``.

Each byte comes out that much later than it came in, in each direction; nothing waits for anything else, as on a wire.
Threads that sleep: asyncio's clock on Linux counts whole milliseconds.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time


def main() -> None:
    port, upstream, delay_ms = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    host, _, upstream_port = upstream.rpartition(":")
    listener = socket.create_server(("127.0.0.1", port))
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        broker = socket.create_connection((host, int(upstream_port)))
        for source, to in ((client, broker), (broker, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _pass_on(source, to, delay_ms / 1000)


def _pass_on(source: socket.socket, to: socket.socket, delay_s: float) -> None:
    on_the_wire: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def receive() -> None:
        try:
            while data := source.recv(1 << 20):
                on_the_wire.put((time.monotonic() + delay_s, data))
        except OSError:
            pass
        on_the_wire.put((time.monotonic() + delay_s, b""))

    def send() -> None:
        try:
            while True:
                due, data = on_the_wire.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    to.shutdown(socket.SHUT_WR)
                    return
                to.sendall(data)
        except OSError:
            return

    for run in (receive, send):
        threading.Thread(target=run, daemon=True).start()


if __name__ == "__main__":
    main()
