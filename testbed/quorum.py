"""Which broker is the active controller, by a DescribeQuorum (KIP-595) over a plain socket.

Clients are told of any broker as "the controller" under KRaft, and confluent-kafka does not ask the quorum.
"""

import socket
import struct

_DESCRIBE_QUORUM, _VERSION = 55, 0
_TIMEOUT_S = 5.0
_LOG = b"__cluster_metadata"


def active_controller(address: str) -> int:
    """The node that leads the metadata quorum, as the broker at `host:port` knows it.

    :raises OSError: no answer.
    """
    host, _, port = address.rpartition(":")
    partitions = b"\x02" + struct.pack(">i", 0) + b"\0"
    topics = b"\x02" + bytes([len(_LOG) + 1]) + _LOG + partitions + b"\0"
    request = struct.pack(">hhih", _DESCRIBE_QUORUM, _VERSION, 1, -1) + b"\0" + topics + b"\0"
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        data = answer.read(size)
    # Correlation id, tags, error, one topic, its name, one partition, its index and error; then the leader.
    at = 4 + 1 + 2 + 1 + 1 + len(_LOG) + 1
    index, error, leader = struct.unpack_from(">ihi", data, at)
    if error or index:
        raise OSError(f"DescribeQuorum: error {error}")
    return int(leader)
