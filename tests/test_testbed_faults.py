"""What the fault matrix stands on tells the truth, too: the proxy, the raw look at a group, the disk that hangs."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from testbed import kafka_answers, kafka_proxy
from testbed.broker import KafkaBroker
from testbed.hanging_file import HangingFile
from testbed.kafka_proxy import LIST_OFFSETS, METADATA, KafkaProxy, Moment, NotFired
from testbed.leash import Leashed
from testbed.raw_offsets import RawOffsets
from testbed.topics import quiet, wait_for


@pytest.fixture
def t(broker: KafkaBroker, topic: Callable[..., str]) -> str:
    name = topic(2)
    broker.produce_many(name, 10, partitions=2)
    return name


def _ends(proxy: KafkaProxy, t: str, client_id: str = "me") -> list[int]:
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap_servers, "client.id": client_id}, logger=quiet)
    admin.list_topics(timeout=10)
    asked = {TopicPartition(t, p): OffsetSpec.latest() for p in (0, 1)}
    return [future.result(20).offset for future in admin.list_offsets(asked, request_timeout=10).values()]


def test_a_client_of_the_proxy_speaks_to_the_broker_through_it_alone(proxy: KafkaProxy, t: str) -> None:
    rule = proxy.arm("seen", Moment("me", LIST_OFFSETS), kafka_proxy.before(lambda: None))
    assert _ends(proxy, t) == [5, 5]
    assert "api key 2 by client 'me'" in rule.proof()


def test_a_rule_is_for_one_client_and_one_request(proxy: KafkaProxy, t: str) -> None:
    rule = proxy.arm("seen", Moment("me", LIST_OFFSETS, 2), kafka_proxy.before(lambda: None))
    _ends(proxy, t, "somebody")
    _ends(proxy, t)
    with pytest.raises(NotFired, match="1 came"):
        rule.proof()
    _ends(proxy, t)
    assert rule.proof()


def test_the_client_process_of_a_request_is_found(proxy: KafkaProxy, t: str) -> None:
    pids: list[int] = []

    def who(exchange: kafka_proxy.Exchange) -> bytes:
        pids.append(exchange.client_process().pid)
        return exchange.forward()

    proxy.arm("who", Moment("me", METADATA), who)
    _ends(proxy, t)
    assert pids == [os.getpid()]


def test_a_changed_error_code_is_what_the_client_sees(proxy: KafkaProxy, t: str) -> None:
    """librdkafka asks again where it is told of another leader, and then gets the broker's own answer."""
    change = kafka_answers.list_offsets_error(kafka_answers.NOT_LEADER_OR_FOLLOWER)
    rule = proxy.arm("no leader", Moment("me", LIST_OFFSETS), kafka_proxy.changed(change))
    seen: list[object] = []
    try:
        seen.append(_ends(proxy, t))
    except Exception as error:
        seen.append(str(error))
    assert rule.proof()
    assert "NOT_LEADER" in str(seen) or seen == [[5, 5]]


def test_the_raw_look_sees_what_the_admin_client_wrote(broker: KafkaBroker, t: str, group: str) -> None:
    admin = broker.admin()
    partition = TopicPartition(t, 1, 4, metadata="said")
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [partition])])[group].result(30)
    with RawOffsets(broker.bootstrap_servers) as raw:
        assert raw.read(group, t, [0, 1]) == {1: (4, "said")}
        assert raw.read("nobody", t, [0, 1]) == {}


def test_a_reader_waits_until_the_file_is_given_back(tmp_path: Path) -> None:
    file = tmp_path / "object"
    file.write_text("whole")
    disk = HangingFile(file)
    disk.hang()
    with subprocess.Popen([sys.executable, "-c", f"open({str(file)!r}).read()"]) as reader:
        assert disk.wait_for_reader().pid == reader.pid
        assert reader.poll() is None
        reader.kill()
    disk.give_back()
    assert file.read_text() == "whole"


def test_what_made_a_process_group_of_its_own_ends_with_the_leash(tmp_path: Path) -> None:
    """As Airflow's tasks do."""
    pid_file = tmp_path / "pid"
    script = (
        "import os, subprocess, sys; child = subprocess.Popen(['cat', '/dev/zero'], stdout=subprocess.DEVNULL, "
        f"process_group=0); open({str(pid_file)!r}, 'w').write(str(child.pid)); child.wait()"
    )
    process = Leashed.start([sys.executable, "-c", script], env=dict(os.environ), log=tmp_path / "log")
    wait_for("the child runs", lambda: pid_file.exists() and bool(pid_file.read_text()))
    process.kill()
    stat = Path(f"/proc/{pid_file.read_text()}/stat")
    wait_for("it is gone", lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX", 10)
