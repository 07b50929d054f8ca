"""Ports that nobody uses now, and that the system will not hand to anybody's outgoing connection.

Port 0 would be simpler, but gives one of the ephemeral range. While a broker on such a port is down, a client that
keeps trying to reach it on this machine is sometimes given that very port as its own and connects to itself (TCP's
simultaneous open); the broker then cannot come back. So: below the ephemeral range of Linux (32768 and up), at random.
"""

import random
import socket

_RANGE = range(15_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Different free ports of 127.0.0.1. Another process may take one before its user does: be ready to ask again.

    :raises OSError: when none can be found.
    """
    found: list[int] = []
    for port in random.sample(_RANGE, 500):
        if len(found) == count:
            return found
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    raise OSError(f"no {count} free ports of 127.0.0.1 among {_RANGE.start}..{_RANGE.stop - 1}")
