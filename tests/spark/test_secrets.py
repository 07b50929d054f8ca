"""Where a driver finds its Kafka client's settings, and that no log has them."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import secrets
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.secrets import CREDENTIAL, ONE_TIME_FILE, client_options, parse_properties
from airflow_kafka_offsets.spark.store import jvm_of

pytestmark = pytest.mark.long

TEXT = r"""# a comment\
security.protocol=SSL
  sasl.jaas.config : x \
   password\="\u00fc\ud83d\ude00";
! another
empty
"""
OPTIONS = {
    "kafka.security.protocol": "SSL",
    "kafka.sasl.jaas.config": 'x password="ü😀";',
    "kafka.empty": "",
}


def java_properties(spark: SparkSession) -> Any:
    return jvm_of(spark).java.util.Properties()


@given(st.text("ab \\=:#!\n\r\t\f\u00e9\U0001f600", max_size=30))
@settings(max_examples=200)
def test_a_file_is_read_as_java_reads_it(spark: SparkSession, text: str) -> None:
    assume("\\" not in (line.strip(" \t\f") for line in re.split("[\r\n]", text)))  # Java's own reading of it is odd
    jvm: Any = spark._jvm
    properties = java_properties(spark)
    properties.load(jvm.java.io.StringReader(text))
    assert parse_properties(text) == {name: properties.getProperty(name) for name in properties.stringPropertyNames()}


@given(st.dictionaries(st.text(min_size=1), st.text(st.characters(exclude_categories=["Cs"]))))
@settings(max_examples=50)
def test_any_password_that_java_writes_is_read(spark: SparkSession, values: dict[str, str]) -> None:
    jvm: Any = spark._jvm
    properties, writer = java_properties(spark), jvm.java.io.StringWriter()
    for name, value in values.items():
        properties.setProperty(name, value)
    properties.store(writer, None)
    assert parse_properties(writer.toString()) == values


@pytest.mark.parametrize("scheme", ["", "file:", "file://", ONE_TIME_FILE])
def test_a_file_is_read_and_removed_only_if_it_was_made_for_this_driver(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(TEXT)
    assert client_options(spark, f"{scheme}{file}") == OPTIONS
    assert file.exists() == (scheme != ONE_TIME_FILE)


def test_an_entry_of_a_hadoop_credential_provider_holds_the_file(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    setting = "hadoop.security.credential.provider.path"
    spark.conf.set(setting, f"localjceks://file{tmp_path}/keys.jceks")
    try:
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        provider = jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(conf).get(0)
        characters = spark.sparkContext._gateway.new_array(jvm.char, len(TEXT))  # type: ignore[union-attr]
        for at, character in enumerate(TEXT):
            characters[at] = character
        provider.createCredentialEntry("kafka", characters)
        provider.flush()
        assert client_options(spark, f"{CREDENTIAL}kafka") == OPTIONS
        with pytest.raises(InvalidJob, match="No Hadoop credential provider has it"):
            client_options(spark, f"{CREDENTIAL}another")
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize("where", ["/nowhere/client.properties", "nofs://nowhere/client.properties"])
def test_a_file_that_cannot_be_read_is_named(spark: SparkSession, where: str) -> None:
    with pytest.raises(InvalidJob, match=r"Cannot read spark.kafka_offsets.client_properties=(/nowhere|nofs)"):
        client_options(spark, where)


def test_py4j_logs_nothing_at_debug_whatever_the_job_sets(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    jvm: Any = spark._jvm
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "py4j"):
        logging.getLogger("py4j.clientserver").info("is logged")
        jvm.java.lang.String("hunter2")
    assert "is logged" in caplog.text
    assert "hunter2" not in caplog.text


def test_loggers_of_spark_that_tell_secrets_are_kept_at_info(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    log4j, name = jvm.org.apache.logging.log4j, "org.apache.spark.sql.kafka010"
    log4j.core.config.Configurator.setLevel(name, log4j.Level.DEBUG)
    assert log4j.LogManager.getLogger(f"{name}.AssignStrategy").isDebugEnabled()
    secrets.keep_secrets_out_of_the_log(spark)
    assert not log4j.LogManager.getLogger(f"{name}.AssignStrategy").isDebugEnabled()
