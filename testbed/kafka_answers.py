"""Another error code in a broker's answer: what a broker says while it loads, moves or has lost something.

Each function is a `change` of `kafka_proxy.changed`, for the versions that librdkafka asks in; another one is refused
rather than guessed at.
"""

import struct
from collections.abc import Callable

COORDINATOR_LOAD_IN_PROGRESS = 14
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
UNKNOWN_SERVER_ERROR = -1

Change = Callable[[int, bytes], bytes]


def list_offsets_error(code: int) -> Change:
    """ListOffsets, flexible (version 6 on): each partition with `code`, and no offset."""
    return _each_offset(lambda data, at: struct.pack_into(">hqq", data, at, code, -1, -1))


def _each_offset(change_one: Callable[[bytearray, int], None]) -> Change:
    """`change_one` is given where the error of each partition is, before its timestamp and its offset."""

    def change(version: int, answer: bytes) -> bytes:
        if version < 6:
            raise ValueError(f"ListOffsets v{version} is not known here")
        data, at = bytearray(answer), 4 + 1 + 4  # correlation id, header's tags, throttle time
        topics, at = _varint(answer, at)
        for _ in range(topics - 1):
            length, at = _varint(answer, at)
            partitions, at = _varint(answer, at + length - 1)
            for _ in range(partitions - 1):
                change_one(data, at + 4)  # after the index
                at += 4 + 2 + 8 + 8 + 4 + 1  # and leader epoch, tags
            at += 1  # the topic's tags
        return bytes(data)

    return change


def offset_fetch_error(code: int) -> Change:
    """OffsetFetch of one group, version 8 on: the group with `code`."""

    def change(version: int, answer: bytes) -> bytes:
        if version < 8:
            raise ValueError(f"OffsetFetch v{version} is not known here")
        return answer[:-4] + struct.pack(">h", code) + answer[-2:]  # then the group's tags, and the answer's

    return change


def offset_fetch_partition_error(topic: str, partition: int, code: int) -> Change:
    """OffsetFetch, version 8 on: one partition of one topic with `code`, and no offset."""

    def change(version: int, answer: bytes) -> bytes:
        if version < 8:
            raise ValueError(f"OffsetFetch v{version} is not known here")
        data, name = bytearray(answer), topic.encode()
        count, at = _varint(answer, answer.index(name) + len(name))
        for _ in range(count - 1):
            (number,) = struct.unpack_from(">i", answer, at)
            length, error_at = _varint(answer, at + 4 + 8 + 4)  # after index, offset, epoch: the metadata
            error_at += max(length - 1, 0)
            if number == partition:
                struct.pack_into(">q", data, at + 4, -1)
                struct.pack_into(">h", data, error_at, code)
            at = error_at + 2 + 1  # and tags
        return bytes(data)

    return change


def without_leader(topic: str, partition: int) -> Change:
    """Metadata, version 10 on: one partition of one topic that nobody leads."""

    def change(version: int, answer: bytes) -> bytes:
        if version < 10:
            raise ValueError(f"Metadata v{version} is not known here")
        data, name = bytearray(answer), topic.encode()
        if name not in answer:  # of another topic, or of brokers alone
            return answer
        count, at = _varint(answer, answer.index(name) + len(name) + 16 + 1)  # after topic id and is_internal
        for _ in range(count - 1):
            (number,) = struct.unpack_from(">i", answer, at + 2)
            if number == partition:
                struct.pack_into(">hiii", data, at, LEADER_NOT_AVAILABLE, number, -1, -1)
            at += 2 + 4 + 4 + 4
            for _ in range(3):  # replicas, those in sync, those that are gone
                nodes, at = _varint(answer, at)
                at += 4 * (nodes - 1)
            at += 1  # tags
        return bytes(data)

    return change


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint (KIP-482), and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
