"""Amazon MSK by IAM, as far as it goes without AWS: the clients' own code takes what is rendered, and signs with it.

No broker of MSK is asked. Spark's side is Amazon's login module in a JVM with Kafka's client; Airflow's side is the
token that Amazon's signer gives to librdkafka.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from py4j.protocol import Py4JJavaError

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.java_client import as_properties, java_client
from airflow_kafka_offsets.broker.tokens import token_source
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from testbed.cache import Say
from testbed.driven_jvm import DrivenJvm
from testbed.jars import broker_jars, msk_iam_jars, pinned
from testbed.java import Java
from tests.secured.page import PAGE, blocks

(CONNECTION,) = (json.loads(block) for block in blocks("json") if "amazonaws" in block)
HOST = CONNECTION["bootstrap.servers"].removesuffix(":9098")
KEY_ID, SECRET = "AKIDOFTHETESTS", "hunter2-of-aws"
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN")


@pytest.fixture
def airflow_s(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The connection's settings, as the Kafka provider makes them of an address of MSK."""
    monkeypatch.setenv("AIRFLOW_CONN_MSK", json.dumps({"conn_type": "kafka", "extra": CONNECTION}))
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    return dict(KafkaOffsetsHook("msk").client_config)


@pytest.fixture(scope="module")
def jvm(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    jars = [*broker_jars(java, say), *msk_iam_jars(java, say)]
    with pytest.MonkeyPatch.context() as patch:
        for name in CREDENTIALS:  # of the S3 server of other tests: Amazon's library takes them first
            patch.delenv(name, raising=False)
        running = DrivenJvm(java, jars, tmp_path_factory.mktemp("msk"), ())
    for name, value in {"aws.accessKeyId": KEY_ID, "aws.secretAccessKey": SECRET}.items():
        running.classes.System.setProperty(name, value)
    yield running.classes
    running.close()


def configured(jvm: Any, rendered: dict[str, str]) -> Any:
    """What Kafka's client makes of the file that the driver is handed."""
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.StringReader(as_properties(rendered)))
    return jvm.org.apache.kafka.clients.admin.AdminClientConfig(properties)


def logged_in(jvm: Any, rendered: dict[str, str]) -> None:
    """A client is made: it loads the login module, logs in, and hands the handler its options."""
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.StringReader(as_properties({**rendered, "bootstrap.servers": "127.0.0.1:1"})))
    jvm.org.apache.kafka.clients.admin.AdminClient.create(properties).close(jvm.java.time.Duration.ZERO)


def test_spark_s_client_takes_what_is_rendered_and_signs_with_it(jvm: Any, airflow_s: dict[str, Any]) -> None:
    rendered = java_client(airflow_s)
    assert rendered == java_client({**CONNECTION, "sasl.mechanism": "AWS_MSK_IAM"}), (
        "the connection that is Spark's own"
    )
    logged_in(jvm, rendered)

    config = configured(jvm, rendered).values()
    login = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(config).configurationEntries()
    handler = jvm.java.lang.Class.forName(rendered["sasl.client.callback.handler.class"])
    handler = handler.getDeclaredConstructor(None).newInstance(None)
    mechanism = rendered["sasl.mechanism"]
    handler.configure(config, mechanism, login)
    client = jvm.javax.security.sasl.Sasl.createSaslClient(_texts(jvm, mechanism), None, "kafka", HOST, config, handler)
    payload = json.loads(bytes(client.evaluateChallenge(b"")))
    assert (payload["host"], payload["action"]) == (HOST, "kafka-cluster:Connect")
    assert payload["x-amz-credential"].startswith(f"{KEY_ID}/")
    assert payload["x-amz-credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")


def test_the_page_names_the_package_that_is_tested() -> None:
    (jar,) = pinned("msk-iam")
    assert f'"{jar}"' in PAGE


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.mechanism": "SCRAM-SHA-512"},
        {"sasl.jaas.config": "software.amazon.msk.auth.iam.Login required;"},
        {"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.Handler"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_spark_s_client_refuses_what_is_not(jvm: Any, wrong: dict[str, str]) -> None:
    rendered = java_client({**CONNECTION, "sasl.mechanism": "AWS_MSK_IAM"})
    with pytest.raises(Py4JJavaError):
        logged_in(jvm, {**rendered, **wrong})


def test_airflow_s_client_gets_a_token_that_is_signed_for_the_cluster_s_region(
    airflow_s: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    source = token_source(airflow_s)
    assert source is not None
    token, expires = source()
    assert 0 < expires - time.time() <= 900, "in seconds, and not in the signer's milliseconds"
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    said = {name: value for name, [value] in parse_qs(url.query).items()}
    assert (url.hostname, said["Action"]) == ("kafka.eu-west-1.amazonaws.com", "kafka-cluster:Connect")
    assert said["X-Amz-Credential"].startswith(f"{KEY_ID}/")
    assert said["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert SECRET not in url.query


def test_where_aws_gives_no_credentials_the_error_says_so(airflow_s: dict[str, Any]) -> None:
    with KafkaCluster(airflow_s, first_contact_s=0.1) as cluster, pytest.raises(ClusterUnavailable) as error:
        cluster.cluster_id()
    assert "There is no token for the Kafka brokers" in str(error.value)
    assert "boto3 finds no AWS credentials in this process" in str(error.value)


def _texts(jvm: Any, *texts: str) -> Any:
    found = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), len(texts))
    for at, text in enumerate(texts):
        found[at] = text
    return found
