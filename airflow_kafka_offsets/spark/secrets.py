# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Secrets of the Kafka client: where a driver finds them, and how they stay out of logs.

The Spark setting ``spark.kafka_offsets.client_properties`` says where the client's settings are, in the format of
Kafka's own ``client.properties``. Spark shows its settings in its UI and its event log; what is in the file goes to the
options of the Kafka source only, which Spark shows nowhere. The setting is one of

- a path on the driver's machine, or of any file system that Spark has (``s3a://…``);
- ``credential:<alias>``: an entry of a Hadoop credential provider that holds the text of the file;
- ``one-time-file:<path>``: a file that the Spark task made for this driver alone. It is removed once it is read.

A Spark Connect server shows the plans of its clients, with the options of sources: there Spark redacts them.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.store import hadoop_conf, jvm_of, require_jvm

SETTING = "spark.kafka_offsets.client_properties"
CREDENTIAL, ONE_TIME_FILE = "credential:", "one-time-file:"
REDACTION = "spark.sql.redaction.string.regex"
_SECRET_OPTIONS = r'key: "kafka\.(sasl|ssl)[^"]*"\s*value: "([^"\\]|\\.)*"'
_TELLING = ("org.apache.spark.kafka010", "org.apache.spark.sql.kafka010")
_BLANK = " \t\f"
_PAIR = re.compile(r"((?:\\.|[^\\ \t\f:=])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def client_options(spark: SparkSession, where: str) -> dict[str, str]:
    """The client's settings as options of Spark's source: ``kafka.security.protocol``, …

    :param where: the value of the setting.
    :raises InvalidJob: there is no such file or entry, or this driver cannot read it.
    """
    try:
        text = _read(spark, where)
    except InvalidJob:
        raise
    except Exception as error:  # Python's, or Java's
        reason = str(getattr(error, "java_exception", error)).splitlines()[0]
        raise InvalidJob(f"Cannot read {SETTING}={where}", reason, "Put the file where the driver runs") from None
    if jvm_of(spark) is None and _SECRET_OPTIONS not in (redacted := spark.conf.get(REDACTION, "") or ""):
        spark.conf.set(REDACTION, "|".join(filter(None, [redacted, _SECRET_OPTIONS])))
    return {f"kafka.{name}": value for name, value in parse_properties(text).items()}


def parse_properties(text: str) -> dict[str, str]:
    """The settings in a text, as ``java.util.Properties`` reads it."""
    lines, found = iter(re.split(r"\r\n|\r|\n", text)), {}
    for line in lines:
        line = line.lstrip(_BLANK)
        if line[:1] in ("", "#", "!"):
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:  # an odd number of them: the line continues
            line = line[:-1] + next(lines, "").lstrip(_BLANK)
        if pair := _PAIR.fullmatch(line):
            found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _SHORT.get(m[2], m[2]), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # Java writes 😀 as two escapes


def _read(spark: SparkSession, where: str) -> str:
    if where.startswith(CREDENTIAL):
        jvm = require_jvm(spark, f"Cannot read {SETTING}={where}")
        text = hadoop_conf(spark).getPassword(where.removeprefix(CREDENTIAL))
        if text is None:
            raise InvalidJob(f"Cannot read {SETTING}={where}", "No Hadoop credential provider has it", "Add the entry")
        return str(jvm.java.lang.String(text))
    path = where.removeprefix(ONE_TIME_FILE)
    if re.match(r"(?!file:)[a-z0-9]+:", path):
        file = require_jvm(spark, f"Cannot read {SETTING}={where}").org.apache.hadoop.fs.Path(path)
        with closing(file.getFileSystem(hadoop_conf(spark)).open(file)) as stream:
            return bytes(stream.readAllBytes()).decode("latin-1")
    local = Path(re.sub(r"file:(//)?", "", path, count=1))
    text = local.read_text("latin-1")
    if where.startswith(ONE_TIME_FILE):
        local.unlink()
    return text


def keep_secrets_out_of_the_log(spark: SparkSession) -> None:
    """Keep the loggers of Spark's Kafka source at INFO: at DEBUG they write the client's secrets."""
    if (jvm := jvm_of(spark)) is None:
        return
    log4j = jvm.org.apache.logging.log4j
    for name in _TELLING:
        if log4j.LogManager.getLogger(name).isDebugEnabled():
            log4j.core.config.Configurator.setLevel(name, log4j.Level.INFO)
