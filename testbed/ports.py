"""Ports that nobody uses now, and that the system will not hand to anybody's outgoing connection.

Port 0 would be simpler, but gives one of the ephemeral range. While a broker on such a port is down, a client that
keeps trying to reach it on this machine is sometimes given that very port as its own and connects to itself (TCP's
simultaneous open); the broker then cannot come back. So: below the ephemeral range of Linux (32768 and up), at random.

On Linux a port stays this process's until it ends: a bound socket keeps it. It does not listen, and is marked
`SO_REUSEADDR`: a server that sets that too, as servers do, can have the port, and whoever looks for one passes it by.
"""

import random
import socket
import sys

_RANGE = range(15_000, 32_000)
_KEPT: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Different free ports of 127.0.0.1, which no other call in any process of this machine gets.

    A process that does not ask here may take one before its user does, and elsewhere than on Linux each may: be ready
    to ask again.

    :raises OSError: when none can be found.
    """
    found: list[int] = []
    for port in random.sample(_RANGE, 500):
        if len(found) == count:
            return found
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.close()
            continue
        if sys.platform == "linux":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _KEPT.append(probe)
        else:
            probe.close()
        found.append(port)
    raise OSError(f"no {count} free ports of 127.0.0.1 among {_RANGE.start}..{_RANGE.stop - 1}")
