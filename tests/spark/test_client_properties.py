"""Where a driver finds its Kafka client's settings, and that Java reads what Python has written."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_kafka_offsets.broker.java_client import as_properties, jaas
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark import client_properties, planned_batch
from airflow_kafka_offsets.spark.client_properties import CREDENTIAL, HANDED_OVER, client_options

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
VALUES = {"security.protocol": "SSL", "sasl.jaas.config": 'x "a\\\\b" \u00fc\U0001f600;', "empty": ""}
OPTIONS = {f"kafka.{name}": value for name, value in VALUES.items()}
passwords = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\"'\\;=#\n\r\t "), min_size=1)


@given(passwords)
@settings(max_examples=60)
def test_java_reads_any_password(spark: SparkSession, password: str) -> None:
    """As Kafka's own client does: the properties file, then the JAAS line in it."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    line = jaas(MODULE, {"username": "u", "password": password})
    properties.load(jvm.java.io.StringReader(as_properties({"sasl.jaas.config": line, "plain": password})))
    assert properties.getProperty("plain") == password
    config = jvm.java.util.HashMap()
    config.put(
        "sasl.jaas.config",
        jvm.org.apache.kafka.common.config.types.Password(properties.getProperty("sasl.jaas.config")),
    )
    (entry,) = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(config).configurationEntries()
    assert (entry.getLoginModuleName(), dict(entry.getOptions())) == (MODULE, {"username": "u", "password": password})


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_file_on_the_driver_s_machine_is_read_and_stays(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(as_properties(VALUES))
    assert client_options(spark, f"{scheme}{file}") == OPTIONS
    assert file.exists()


def test_a_file_that_was_handed_over_is_removed_and_its_settings_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(as_properties(VALUES))
    where = f"{HANDED_OVER}{file}"
    assert client_options(spark, where) == OPTIONS
    assert not file.exists()
    assert client_options(spark, where) == OPTIONS
    client_properties._taken.clear()
    with pytest.raises(InvalidRequest, match="cannot read"):
        client_options(spark, where)


def characters(spark: SparkSession, text: str) -> Any:
    found = spark.sparkContext._gateway.new_array(spark._jvm.char, len(text))  # type: ignore[union-attr]
    for at, character in enumerate(text):
        found[at] = character
    return found


def test_an_entry_of_a_hadoop_credential_provider_is_a_whole_file(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    path = f"localjceks://file{tmp_path}/keys.jceks"
    name = "hadoop.security.credential.provider.path"
    spark.conf.set(name, path)
    try:
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        provider = jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(conf).get(0)
        provider.createCredentialEntry("kafka", characters(spark, as_properties(VALUES)))
        provider.flush()
        assert client_options(spark, f"{CREDENTIAL}kafka") == OPTIONS
        with pytest.raises(InvalidRequest, match="no Hadoop credential provider has that alias"):
            client_options(spark, f"{CREDENTIAL}another")
    finally:
        spark.conf.unset(name)


def test_py4j_s_log_has_none_of_it_from_the_import_on(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the job has set before it calls the package."""
    jvm: Any = spark._jvm
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "py4j"):
        logging.getLogger("py4j.clientserver").info("is logged")
        jvm.java.lang.String("hunter2")
    assert "is logged" in caplog.text
    assert "hunter2" not in caplog.text


def test_spark_s_own_loggers_that_tell_secrets_are_kept_at_info(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    log4j, name = jvm.org.apache.logging.log4j, "org.apache.spark.sql.kafka010"
    log4j.core.config.Configurator.setLevel(name, log4j.Level.DEBUG)
    assert log4j.LogManager.getLogger(f"{name}.AssignStrategy").isDebugEnabled()
    with pytest.raises(InvalidRequest):
        planned_batch([], spark)
    assert not log4j.LogManager.getLogger(f"{name}.AssignStrategy").isDebugEnabled()
