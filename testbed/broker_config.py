"""The settings of the testbed's broker: one KRaft node on this machine, quick to start, with no copy of anything."""

from collections.abc import Mapping, Sequence
from pathlib import Path

# Warnings and errors only: what BrokerFailed shows.
LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


def broker_settings(
    ports: Sequence[int],
    data: Path,
    sasl_users: Mapping[str, str] | None,
    proxy_port: int | None = None,
    more_listeners: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Kafka's properties; `ports`: the clients', the controller's and, where asked for, SASL's, those of more listeners
    and the one for the proxy.

    :param proxy_port: where a proxy listens. The last of `ports` is a listener that sends its clients there.
    :param more_listeners: name → security protocol of further listeners.
    """
    broker, controller, *more = ports
    own = more_listeners or {}
    sasl = [more.pop(0)] if sasl_users is not None else []
    listeners = [f"PLAINTEXT://127.0.0.1:{broker}", *(f"SASL_PLAINTEXT://127.0.0.1:{port}" for port in sasl)]
    listeners += [f"{name}://127.0.0.1:{port}" for name, port in zip(own, more, strict=False)]
    advertised = list(listeners)
    if proxy_port is not None:
        listeners.append(f"PROXIED://127.0.0.1:{ports[-1]}")
        advertised.append(f"PROXIED://127.0.0.1:{proxy_port}")
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(
            [
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,PROXIED:PLAINTEXT",
                *(f"{name}:{protocol}" for name, protocol in own.items()),
            ]
        ),
        "log.dirs": str(data),
        # One node: nothing can be replicated.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # 50 partitions each by default, which take seconds to make.
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        # Records are given times of long ago; after a week (checked every five minutes) they would be deleted.
        "log.retention.ms": "-1",
        # After kill() the controller waits this long before it lets the broker of before in again (9 s by default).
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "250",
    }
    if sasl_users is not None:
        users = "".join(f' user_{name}="{_escaped(password)}"' for name, password in sasl_users.items())
        settings["sasl.enabled.mechanisms"] = "PLAIN"
        settings["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required{users};"
        )
    return settings


def _escaped(text: str) -> str:
    """For inside the double quotes of a JAAS line."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def as_properties(settings: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in settings.items())
