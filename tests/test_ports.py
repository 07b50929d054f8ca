"""A port that the testbed was given stays its own until its process ends."""

import socket
import sys

import pytest

from testbed.ports import free_ports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server have a kept port")


def test_a_port_is_no_longer_free_before_its_server_starts_while_it_is_down_and_after_it() -> None:
    (port,) = free_ports(1)
    for _ in range(2):
        assert not is_free(port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            assert not is_free(port)
    assert not is_free(port)


def is_free(port: int) -> bool:
    """As `free_ports` finds out, in whichever process."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
