"""What every test may ask for: a Java, one real broker for the whole session, topics of one's own.

A missing Java, jar or broker fails the tests that need it. None is skipped: a suite that is green because Kafka was not
there says nothing.
"""

import atexit
import os
import shutil
import sys
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

from testbed import airflow_home, jars
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.java import Java, find_java
from testbed.kafka_proxy import KafkaProxy
from testbed.ports import free_ports
from testbed.postgres import Postgres
from testbed.registry_server import RegistryServer
from testbed.spark import SHORT_JOBS, spark_conf, spark_env

pytest_plugins = ["tests.spread", "tests.airflow.fixtures"]


# How long an example takes says how busy the machine is, and nothing of the example.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes, files come in the order of their digests: those that wait among those that compute."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: zlib.crc32(str(item.path.relative_to(config.rootpath)).encode()))


TopicFactory = Callable[..., str]
SPARK = version("pyspark")
SPARK_MINOR = SPARK.rpartition(".")[0]

# Airflow reads its settings when it is first imported, by whichever test that is: they are set before any of them.
AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="kafka-offsets-airflow-"))
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
os.environ.update(airflow_home.settings_for(AIRFLOW_HOME, AIRFLOW_HOME / "dags"))
os.environ["AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY"] = "0"


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Say:
    """Tell the person at the terminal, whom pytest shows no output before a test has failed."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def tell(message: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{message}", file=sys.stderr, flush=True)

    return tell


@pytest.fixture(scope="session")
def java(say: Say) -> Java:
    return find_java(say)


@pytest.fixture(scope="session")
def spark_jars(java: Java, say: Say) -> list[Path]:
    return jars.spark_jars(java, say, SPARK)


@pytest.fixture(scope="session")
def s3a_jars(java: Java, say: Say) -> list[Path]:
    return jars.s3a_jars(java, say)


@pytest.fixture(scope="session")
def spark_environment(java: Java) -> dict[str, str]:
    """Variables to add to the environment of a process that runs `spark-submit`."""
    return spark_env(java) | SHORT_JOBS


@pytest.fixture(scope="session")
def spark_settings(java: Java, spark_jars: list[Path], say: Say) -> dict[str, str]:
    """`spark.*` settings of a local Spark that reads Kafka and has Delta's jars."""
    return spark_conf([*spark_jars, *jars.delta_jars(java, say, SPARK_MINOR)])


@pytest.fixture(scope="session")
def postgres(java: Java, say: Say) -> Iterator[Postgres]:
    with Postgres(java, say) as server:
        yield server


@pytest.fixture(scope="session")
def schema_registry(java: Java, say: Say) -> Iterator[RegistryServer]:
    """Everybody's: a test has subjects of its own."""
    with RegistryServer(java, say) as server:
        yield server


@pytest.fixture(scope="session")
def proxied(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaBroker, KafkaProxy]]:
    port = free_ports(1)[0]
    with (
        KafkaProxy(port, lambda: running.proxied_address) as proxy,
        KafkaBroker(tmp_path_factory.mktemp("kafka"), proxy_port=port, java=java, say=say) as running,
    ):
        yield running, proxy


@pytest.fixture(scope="session")
def broker(proxied: tuple[KafkaBroker, KafkaProxy]) -> KafkaBroker:
    """The session's broker. A test that stops, kills or pauses one makes its own: `KafkaBroker(tmp_path / "kafka")`."""
    return proxied[0]


@pytest.fixture
def proxy(proxied: tuple[KafkaBroker, KafkaProxy]) -> Iterator[KafkaProxy]:
    """A proxy in front of `broker`, for faults of its answers."""
    yield proxied[1]
    proxied[1].disarm()


@pytest.fixture
def topic(broker: KafkaBroker) -> TopicFactory:
    """`topic(partitions=1, config=None, prefix="topic")` makes a topic of the test's own and returns its name."""

    def create(partitions: int = 1, config: Mapping[str, str] | None = None, prefix: str = "topic") -> str:
        name = unique_name(prefix)
        broker.create_topic(name, partitions, config)
        return name

    return create


@pytest.fixture
def group() -> str:
    """The name of a consumer group that no other test uses."""
    return unique_name("group")


def unique_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"
