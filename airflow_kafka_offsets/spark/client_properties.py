"""The Kafka client's settings of a driver: from a file in the format of Kafka's own tools, ``client.properties``.

Where they are is the one Spark setting ``spark.kafka_offsets.client_properties``. Spark shows its settings in its UI
and its event log, so what they *are* never becomes one: they go from the file to the options of Spark's source, which
Spark sends to its executors with the tasks and shows nowhere. The setting is one of

- a path on the driver's machine (``/etc/kafka/client.properties``, a mounted secret), or one of any file system that
  Spark has (``hdfs://…``, ``s3a://…``);
- ``credential:<alias>``: an entry of a Hadoop credential provider (``hadoop.security.credential.provider.path``) that
  holds the file's whole text;
- ``handed-over:<path>``: the file that ``SparkSubmitPlanOperator`` has made for this driver alone. It is removed once
  it is read, so that it does not stay behind where the Airflow task is killed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.driver_jvm import hadoop_conf, jvm_of, require_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE_PREFIX = "spark.kafka_offsets.source."
"""Of settings that are options of Spark's source: ``spark.kafka_offsets.source.minPartitions``. They are shown."""
SETTING = "spark.kafka_offsets.client_properties"
CREDENTIAL = "credential:"
HANDED_OVER = "handed-over:"
_TELLING = (
    "org.apache.spark.kafka010",
    "org.apache.spark.sql.kafka010",
    "org.apache.spark.sql.execution.datasources.jdbc",
)
_taken: dict[str, Mapping[str, str]] = {}


def client_options(spark: SparkSession, where: str) -> Mapping[str, str]:
    """The settings as options of Spark's source: ``kafka.security.protocol``, …

    :param where: the value of the setting.
    :raises InvalidRequest: there is no such file or entry.
    """
    if where not in _taken:
        found = _read(spark, where)
        if not where.startswith(HANDED_OVER):
            return found
        with suppress(FileNotFoundError):
            os.unlink(where.removeprefix(HANDED_OVER))
        _taken[where] = found  # the driver may ask again, and the file is gone
    return _taken[where]


def settings_of(spark: SparkSession) -> dict[str, str]:
    """All settings of the session."""
    found = getattr(spark.conf, "getAll", None)  # a property, which asks Java for each setting
    return dict(spark.sparkContext.getConf().getAll() if found is None else found)  # None: before Spark 4.0


def keep_secrets_out_of_the_log(spark: SparkSession | None) -> None:
    """Keep loggers of the driver's JVM at INFO that write secrets at DEBUG: those of Spark's Kafka and JDBC sources.

    ``org.apache.spark.sql.kafka010`` hides the password of a JAAS line, and neither a client's secret nor a key; the
    JDBC source hides nothing.
    """
    jvm = jvm_of(spark)
    if jvm is None:
        return
    log4j = jvm.org.apache.logging.log4j
    for name in _TELLING:
        if log4j.LogManager.getLogger(name).isDebugEnabled():
            log4j.core.config.Configurator.setLevel(name, log4j.Level.INFO)


def _read(spark: SparkSession, where: str) -> Mapping[str, str]:
    from py4j.protocol import Py4JJavaError

    jvm, conf = require_jvm(spark, "A file of the Kafka client's settings is read"), hadoop_conf(spark)
    properties = jvm.java.util.Properties()
    try:
        if where.startswith(CREDENTIAL):
            text = conf.getPassword(where.removeprefix(CREDENTIAL))
            if text is None:
                raise InvalidRequest([f"{SETTING} is {where}, and no Hadoop credential provider has that alias."])
            properties.load(jvm.java.io.StringReader(jvm.java.lang.String(text)))
        else:
            path = where.removeprefix(HANDED_OVER)
            file = jvm.org.apache.hadoop.fs.Path(path if re.match(r"file:|.*://", path) else f"file://{path}")
            with closing(file.getFileSystem(conf).open(file)) as stream:
                properties.load(stream)
    except Py4JJavaError as error:
        reason = error.java_exception.toString()
        raise InvalidRequest([f"{SETTING} is {where}, which this driver cannot read: {reason}"]) from None
    return {f"kafka.{name}": properties.getProperty(name) for name in properties.stringPropertyNames()}
