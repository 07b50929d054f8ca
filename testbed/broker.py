"""One real Kafka broker, for a test or the demo: a KRaft node that is broker and controller at once.

It listens on free ports of 127.0.0.1, keeps its data in a folder, and is ready when it says so itself. It can be
stopped, killed, paused and started again on the same ports and data. Nothing of it outlives the process that made it.
"""

import base64
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition

from testbed.broker_config import LOG4J, as_properties, broker_settings
from testbed.cache import Say, silent
from testbed.jars import KAFKA, broker_jars
from testbed.java import Java, find_java
from testbed.leash import Leashed, state_of
from testbed.ports import free_ports
from testbed.topics import Topics, quiet, wait_for

START_DEADLINE_S = 90.0
PORT_ATTEMPTS = 5
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")


class BrokerFailed(RuntimeError):
    """The broker did not start, or ended by itself. The message ends with the last lines of its log."""

    def __init__(self, what: str, log: Path) -> None:
        self.what = what
        self.log = log
        super().__init__(what, log)

    def __str__(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"{self.what}; its log, {self.log}, ends:", *(f"  {line}" for line in lines[-25:])])


class _PortTaken(Exception):
    """Another process took the port first."""


class KafkaBroker(Topics):
    """A broker that runs between `start()` and `stop()`, or in a `with` block; its topics' functions are in `Topics`.

    :param data_dir: where its data and log go; None for a temporary folder, which `close()` and `with` remove.
    :param config: broker settings in addition to, or instead of, the testbed's.
    :param sasl_users: users and passwords of a second listener, SASL_PLAINTEXT with PLAIN; None for no such listener.
    :param proxy_port: where a proxy listens that passes on to `proxied_address`, a listener that advertises the proxy.
    :param more_listeners: name → security protocol of further listeners, whose settings are in `config`.
    :param loaded_groups: whether `start()` returns only when each group coordinator has loaded, which no broker of the
        world waits for. For who asks for a group by a client that cannot take NOT_COORDINATOR.
    :param ports: what it listens on, see `broker_settings`; without them, free ones.
    :param jvm: further options of its JVM.
    :param version: Kafka's, one of those in `jars.lock`.
    :param more_jars: on its class path, besides its own.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        config: Mapping[str, str] | None = None,
        sasl_users: Mapping[str, str] | None = None,
        proxy_port: int | None = None,
        more_listeners: Mapping[str, str] | None = None,
        loaded_groups: bool = True,
        ports: Sequence[int] = (),
        jvm: Sequence[str] = (),
        version: str = KAFKA,
        more_jars: Sequence[Path] = (),
        java: Java | None = None,
        say: Say = silent,
    ) -> None:
        self._java = java or find_java(say)
        self._jars = [*broker_jars(self._java, say, version), *more_jars]
        self._own_dir = data_dir is None
        self.data_dir = data_dir or Path(tempfile.mkdtemp(prefix="kafka-broker-"))
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.log = self.data_dir / "broker.log"
        self._overrides = dict(config or {})
        self._sasl_users = dict(sasl_users) if sasl_users is not None else None
        self._proxy_port = proxy_port
        self._more_listeners = dict(more_listeners or {})
        self._loaded_groups = loaded_groups
        self._ports = list(ports)
        self._jvm = list(jvm)
        self._process: Leashed | None = None
        self._log_start = 0
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()

    @property
    def client_config(self) -> dict[str, Any]:
        """What a client of librdkafka needs for the listener without authentication."""
        return {"bootstrap.servers": self.bootstrap_servers}

    @property
    def bootstrap_servers(self) -> str:
        """host:port of the listener without authentication. Known after the first start, and then fixed."""
        return f"127.0.0.1:{self._port(0)}"

    @property
    def sasl_bootstrap_servers(self) -> str:
        """host:port of the SASL_PLAINTEXT listener.

        :raises ValueError: when the broker was made without `sasl_users`.
        """
        if self._sasl_users is None:
            raise ValueError("this broker has no SASL listener: give it sasl_users")
        return f"127.0.0.1:{self._port(2)}"

    def servers_of(self, listener: str) -> str:
        """host:port of one of `more_listeners`."""
        first = 2 + (self._sasl_users is not None)
        return f"127.0.0.1:{self._port(first + list(self._more_listeners).index(listener))}"

    @property
    def proxied_address(self) -> tuple[str, int]:
        """Host and port of the listener that advertises the proxy.

        :raises ValueError: when the broker was made without `proxy_port`.
        """
        if self._proxy_port is None:
            raise ValueError("this broker has no listener for a proxy: give it proxy_port")
        return "127.0.0.1", self._port(-1)

    @property
    def pid(self) -> int:
        """Of the JVM."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def start(self) -> Self:
        """Start it, and return when it answers; with `loaded_groups`, when its group coordinators have loaded, too.

        :raises BrokerFailed: when it does not within 90 s; the message shows its log.
        """
        if self.is_running:
            raise RuntimeError("the broker is running already")
        fixed = bool(self._ports)
        for attempt in range(PORT_ATTEMPTS):
            if not fixed:
                more = (self._sasl_users is not None) + len(self._more_listeners) + (self._proxy_port is not None)
                self._ports = free_ports(2 + more)
            try:
                self._launch()
                self._wait_until_ready()
            except _PortTaken:
                self.kill()
                if fixed or attempt == PORT_ATTEMPTS - 1:
                    raise BrokerFailed(f"the broker's ports {self._ports} are taken", self.log) from None
            except BaseException:  # Ctrl-C too
                self.kill()
                raise
            else:
                break
        return self

    def stop(self) -> None:
        """End it in order, as an operator would. The data stays; `start()` goes on from there."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """SIGKILL: a crash. The data stays as it was at that moment."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """SIGSTOP: it holds its connections and answers nothing, as in a long garbage collection.

        A thread that waits for a disk stops after that, so it returns when Linux says that all threads have stopped.
        """
        self._running().signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.pid}/task")
        wait_for(
            "each thread of the broker has stopped",
            lambda: all(state_of(str(thread)) in "TX" for thread in threads.glob("*")),
        )

    def resume(self) -> None:
        """SIGCONT, after `pause()`."""
        self._running().signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop and start on the same ports and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End it and remove its folder, if that was a temporary one."""
        self.stop()
        if self._own_dir:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _port(self, index: int) -> int:
        if not self._ports:
            raise RuntimeError("the broker has no ports before its first start")
        return self._ports[index]

    def _running(self) -> Leashed:
        if self._process is None or not self.is_running:
            raise RuntimeError("the broker is not running")
        return self._process

    def _settings(self) -> dict[str, str]:
        data = self.data_dir / "data"
        settings = broker_settings(self._ports, data, self._sasl_users, self._proxy_port, self._more_listeners)
        return settings | self._overrides

    def _launch(self) -> None:
        properties = self.data_dir / "server.properties"
        properties.write_text(as_properties(self._settings()))
        log4j = self.data_dir / "log4j2.properties"
        log4j.write_text(LOG4J)
        jvm = [str(self._java.executable), *_JVM, *self._jvm, f"-Dlog4j2.configurationFile={log4j}"]
        jvm += ["-cp", os.pathsep.join(map(str, self._jars))]
        env = {**os.environ, **self._java.env}
        if not (self.data_dir / "data" / "meta.properties").exists():
            command = [
                *jvm,
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={self.cluster_id}",
                "-c",
                str(properties),
            ]
            with self.log.open("ab") as log:
                if subprocess.run(command, stdout=log, stderr=log, env=env, check=False).returncode:
                    raise BrokerFailed("the broker's data folder could not be formatted", self.log)
        self._log_start = self.log.stat().st_size
        self._process = Leashed.start([*jvm, "kafka.Kafka", str(properties)], env=env, log=self.log)

    def _wait_until_ready(self) -> None:
        """Ready is: it lists itself. With `loaded_groups`, each partition of the offsets topic also coordinates groups.

        Without that, the first commit to a new broker fails with NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        admin = self.admin()

        def answers() -> bool:
            self._check_alive()
            return bool(admin.list_topics(timeout=1.0).brokers)

        try:
            wait_for("the broker answers", answers, START_DEADLINE_S)
            # A group's partition is its name's hash modulo their number; a one-letter name's hash is its code point.
            for number in range(int(self._settings()["offsets.topic.num.partitions"]) if self._loaded_groups else 0):
                self._wait_for_coordinator(chr(ord("0") + number))
        except TimeoutError as error:
            raise BrokerFailed(f"the broker did not start: {error}", self.log) from error

    def _wait_for_coordinator(self, group: str) -> None:
        consumer = Consumer({**self.client_config, "group.id": group}, logger=quiet)

        def has_loaded() -> bool:
            self._check_alive()
            return bool(consumer.committed([TopicPartition("none", 0)], timeout=2.0))

        try:
            wait_for(f"the coordinator of group {group!r} answers", has_loaded, START_DEADLINE_S)
        finally:
            consumer.close()

    def _check_alive(self) -> None:
        if not self.is_running:
            with self.log.open("rb") as log:
                log.seek(self._log_start)
                if b"Address already in use" in log.read():
                    raise _PortTaken
            raise BrokerFailed("the broker ended by itself", self.log)
