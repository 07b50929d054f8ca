"""A TCP proxy between Kafka clients and a broker that knows where one request ends: the last boundary of the clients.

It reads of each request its header (KIP-482: size, api key, api version, correlation id) and passes all on as it is,
until a rule that was armed matches: "the second request of api key 8". What the rule does then is a function of the
`Exchange`: it may do something before the request is passed on, have it answered and do something before the answer is
given back, change the answer, or give none. The broker must advertise the proxy's address on a listener of its own
(`KafkaBroker(proxied=...)`), else clients leave the proxy after the first answer.

A broker works on one request of a connection at a time, and so does the proxy: a thread a connection, no pipelining.
"""

import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
DESCRIBE_GROUPS, API_VERSIONS = 15, 18

ANSWER_DEADLINE_S = 60.0


class NotFired(AssertionError):
    """The fault that a test is about has not happened: what the test would show is not shown."""


class BrokerLeft(Exception):
    """No answer: the broker was stopped, which may be what the deed has done."""


@dataclass
class Exchange:
    """One request on its way. `request` and answers are frames without their size."""

    api_key: int
    version: int
    client_id: str
    request: bytes
    number: int
    _client: socket.socket
    _broker: socket.socket

    def forward(self) -> bytes:
        """Pass the request on; the broker's answer.

        :raises BrokerLeft: the broker closed the connection.
        """
        try:
            _send(self._broker, self.request)
            return _receive(self._broker)
        except (OSError, EOFError) as error:
            raise BrokerLeft from error

    def wait_until_client_leaves(self) -> None:
        """The client has closed the connection: it has given up waiting, or is gone."""
        with suppress(OSError):
            while True:
                select.select([self._client], [], [])
                if not self._client.recv(65536, socket.MSG_DONTWAIT):
                    return


Deed = Callable[[Exchange], "bytes | None"]


@dataclass(frozen=True)
class Moment:
    """The `nth` request of an api key by the clients with a `client.id`, counted from when a rule is armed."""

    client_id: str
    api_key: int
    nth: int = 1

    def __str__(self) -> str:
        return f"request {self.nth} of api key {self.api_key} by client {self.client_id!r}"


@dataclass
class Rule:
    """What happens to matching requests, from the `nth` on, `times` times. `fired` holds a line of proof for each."""

    moment: "Moment"
    deed: Deed
    what: str
    times: int = 1
    seen: int = 0
    fired: list[str] = field(default_factory=list)
    error: BaseException | None = None
    _done: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout_s: float = 120.0) -> None:
        """Return when it has fired for the last time.

        :raises NotFired: when it has not within the time.
        """
        if not self._done.wait(timeout_s) or self.error is not None:
            raise self._not_fired() from self.error

    def proof(self) -> str:
        """What it did, in words.

        :raises NotFired: it did nothing.
        """
        if not self.fired or self.error is not None:
            raise self._not_fired() from self.error
        more = f" (and {len(self.fired) - 1} more times)" if len(self.fired) > 1 else ""
        return f"{self.what}: {self.fired[0]}{more}"

    def _not_fired(self) -> NotFired:
        return NotFired(f"{self.what}: it waits for {self.moment}; {self.seen} came, fired: {self.fired}, {self.error}")


class KafkaProxy:
    """Listens on a port of 127.0.0.1 between `start()` and `stop()`, or in a `with` block.

    :param upstream: the broker's own address on the listener that advertises this proxy; asked for each connection.
    :ivar requests: how many have come, by api key.
    """

    def __init__(self, port: int, upstream: Callable[[], tuple[str, int]]) -> None:
        self.port = port
        self.requests = Counter[int]()
        self._upstream = upstream
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener: socket.socket | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), name="kafka-proxy", daemon=True).start()
        return self

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self.cut_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def arm(self, what: str, moment: Moment, deed: Deed, *, times: int = 1) -> Rule:
        """From now on, the moment's request, and `times` - 1 like it after it, are the deed's."""
        rule = Rule(moment, deed, what, times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def disarm(self) -> None:
        """Pass everything on."""
        with self._lock:
            self._rules.clear()

    def cut_all(self) -> None:
        """Cut each connection that there is."""
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        broker: socket.socket | None = None
        try:
            broker = socket.create_connection(self._upstream(), timeout=ANSWER_DEADLINE_S)
            with self._lock:
                self._sockets |= {client, broker}
            while True:
                request = _receive(client)
                api_key, version, _, length = struct.unpack_from(">hhih", request)
                client_id = request[10 : 10 + max(length, 0)].decode(errors="replace")
                exchange = Exchange(api_key, version, client_id, request, 0, client, broker)
                rule = self._match(exchange)
                answer = exchange.forward() if rule is None else self._do(rule, exchange)
                if answer is None:
                    return
                _send(client, answer)
        except (OSError, EOFError, BrokerLeft):
            return
        finally:
            with self._lock:
                self._sockets -= {client, broker} if broker else {client}
            client.close()
            if broker is not None:
                broker.close()

    def _match(self, exchange: Exchange) -> Rule | None:
        with self._lock:
            self.requests[exchange.api_key] += 1
            for rule in self._rules:
                moment = rule.moment
                if (moment.client_id, moment.api_key) == (exchange.client_id, exchange.api_key):
                    rule.seen += 1
                    if moment.nth <= rule.seen < moment.nth + rule.times:
                        exchange.number = rule.seen
                        return rule
        return None

    @staticmethod
    def _do(rule: Rule, exchange: Exchange) -> bytes | None:
        answer = None
        try:
            answer = rule.deed(exchange)
        except BrokerLeft:
            pass
        except Exception as error:
            rule.error = error
        if rule.error is None:
            rule.fired.append(f"at {rule.moment}, v{exchange.version}")
        if exchange.number == rule.moment.nth + rule.times - 1:
            rule._done.set()
        return answer


# ── deeds ──


def before(act: Callable[[], object]) -> Deed:
    """Do something, then pass the request on."""

    def deed(exchange: Exchange) -> bytes:
        act()
        return exchange.forward()

    return deed


def after(act: Callable[[], object]) -> Deed:
    """Do something when the broker has answered, then give the answer on."""

    def deed(exchange: Exchange) -> bytes:
        answer = exchange.forward()
        act()
        return answer

    return deed


def hang(exchange: Exchange) -> None:
    """Never answer; the broker never sees the request."""
    exchange.wait_until_client_leaves()


def cut(exchange: Exchange) -> None:
    """Close the connection instead of answering; the broker never sees the request."""


def changed(change: Callable[[int, bytes], bytes]) -> Deed:
    """Give on `change(api version, answer)` in place of the broker's answer."""

    def deed(exchange: Exchange) -> bytes:
        return change(exchange.version, exchange.forward())

    return deed


def instead(answer: Callable[[int, bytes], bytes]) -> Deed:
    """Answer `answer(api version, correlation id)` in the broker's place, which never sees the request."""

    def deed(exchange: Exchange) -> bytes:
        return answer(exchange.version, exchange.request[4:8])

    return deed


def _send(to: socket.socket, frame: bytes) -> None:
    to.sendall(struct.pack(">i", len(frame)) + frame)


def _receive(source: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(source, 4))
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = source.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)
