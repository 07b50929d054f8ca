"""Three real Kafka brokers on this machine that hold three copies of everything: one of them may die.

Each node is broker and controller; two of three are a majority. What one broker cannot show is shown here: a group's
coordinator, or a partition's leader, that moves to another broker.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from confluent_kafka.admin import NewTopic

from testbed.broker import KafkaBroker
from testbed.cache import Say, silent
from testbed.java import Java
from testbed.ports import free_ports
from testbed.topics import DEADLINE_S, Topics, wait_for

_NODES = (1, 2, 3)
_PORTS = 2  # of the clients and of the controller

_COPIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


def rack_of(node: int) -> str:
    """Each broker stands in a rack of its own."""
    return f"rack-{node}"


class ThreeBrokers(Topics):
    """A cluster that runs in a `with` block.

    :param data_dir: where the brokers' data and logs go; None for a temporary folder, which is removed.
    :param config: settings of each broker in addition to, or instead of, the testbed's.
    :param jvm: further options of each broker's JVM.
    :ivar nodes: the brokers by their ids; each can be killed and started again by itself.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        config: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
        java: Java | None = None,
        say: Say = silent,
    ) -> None:
        self._own_dir = data_dir is None
        self._data_dir = data_dir or Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        ports = free_ports(_PORTS * len(_NODES))
        of = {node: ports[_PORTS * at : _PORTS * (at + 1)] for at, node in enumerate(_NODES)}
        voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in of.items())
        shared = {**_COPIES, "controller.quorum.voters": voters, **(config or {})}
        self.nodes = {
            node: KafkaBroker(
                self._data_dir / f"node-{node}",
                config={**shared, "node.id": str(node), "broker.rack": rack_of(node)},
                ports=of[node],
                loaded_groups=False,
                jvm=jvm,
                java=java,
                say=say,
            )
            for node in _NODES
        }
        for broker in self.nodes.values():
            broker.cluster_id = self.nodes[1].cluster_id
        super().__init__(",".join(broker.bootstrap_servers for broker in self.nodes.values()))

    def start(self) -> Self:
        """All of them; returns when each has seen the others.

        :raises BrokerFailed: one of them does not start.
        """
        self._each(KafkaBroker.start, self.nodes.values())
        self.wait_for_nodes(set(_NODES))
        return self

    def wait_for_nodes(self, nodes: set[int]) -> None:
        """Until these brokers, and no others, are what each of them lists."""

        def lists() -> bool:
            admins = [self.nodes[node].admin() for node in nodes]
            return all(set(admin.list_topics(timeout=5.0).brokers) == nodes for admin in admins)

        wait_for(f"the brokers that there are are {sorted(nodes)}", lists)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads the partition."""
        found: int = self.admin().list_topics(topic, timeout=5.0).topics[topic].partitions[partition].leader
        return found

    def coordinator(self, group: str) -> int:
        """The id of the broker that coordinates the group, which must have one by now."""
        admin = self.admin()
        found: int = admin.describe_consumer_groups([group])[group].result(DEADLINE_S).coordinator.id
        return found

    def active_controller(self) -> int:
        """The id of the broker that leads the cluster's metadata, by the newest epoch that a node has noted."""
        files = (node.data_dir / "data/__cluster_metadata-0/quorum-state" for node in self.nodes.values())
        states = [json.loads(file.read_text()) for file in files]
        epochs = {state["leaderEpoch"]: state["leaderId"] for state in states if state["leaderId"] in self.nodes}
        found: int = epochs[max(epochs)]
        return found

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """A new topic with three copies; returns when every broker knows a leader of each partition."""
        admin = self.admin()
        new = NewTopic(name, num_partitions=partitions, replication_factor=len(_NODES), config=dict(config or {}))
        admin.create_topics([new], operation_timeout=DEADLINE_S)[name].result(DEADLINE_S)

        def known() -> bool:
            admins = [broker.admin() for broker in self.nodes.values()]
            found = [admin.list_topics(timeout=5.0).topics.get(name) for admin in admins]
            return all(t and [p.leader >= 0 for p in t.partitions.values()] == [True] * partitions for t in found)

        wait_for(f"each broker knows topic {name}", known)

    def close(self) -> None:
        """End them, and remove their folder, if that was a temporary one."""
        # Not in order: a broker alone has no majority to say goodbye to, and waits for one.
        self._each(KafkaBroker.kill, self.nodes.values())
        if self._own_dir:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _each(deed: Any, brokers: Iterable[KafkaBroker]) -> None:
        with ThreadPoolExecutor(len(_NODES)) as threads:
            list(threads.map(deed, brokers))
