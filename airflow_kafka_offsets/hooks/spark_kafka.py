# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""An Airflow Kafka connection → settings of ``spark-submit``, so that the driver reads the same cluster.

Secrets go by a file that its owner alone may read, in a folder that its owner alone may enter. Its path is a Spark
setting; arguments, settings and variables are shown to more people than that. The driver removes the file when it has
read it, and the task when the driver has ended.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.java_client import as_properties, is_secured, java_client, system_properties
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

CLIENT_PROPERTIES = "spark.kafka_offsets.client_properties"
_ONE_TIME_FILE = "one-time-file:"  # the driver removes such a file
_PEM = ("ssl.ca", "ssl.certificate", "ssl.key", "https.ca")
_PEM_BYTES = 4 * 1024 * 1024  # a machine's own authorities have some hundred KiB


@contextmanager
def handed_over(kafka_config_id: str, configured: Mapping[str, str], *, cluster_mode: bool) -> Iterator[dict[str, str]]:
    """Keep a file with the connection's settings while the block runs; yields the Spark settings that name it.

    There is no file where the connection has no more than an address, which is in the job's arguments.

    :param configured: Spark's settings so far.
    :param cluster_mode: whether the driver runs elsewhere, where this machine's files are not.
    :raises InvalidRequest: a setting has no counterpart in Java's client, a file cannot be read, or the driver runs
        elsewhere.
    """
    java = java_client(_with_texts(KafkaOffsetsHook(kafka_config_id).client_config))
    if not is_secured(java):
        yield {}
        return
    if cluster_mode:
        raise InvalidRequest(
            (
                f"Kafka connection {kafka_config_id!r} has credentials, and the driver runs on the cluster, where this "
                "worker's files are not. Name a client.properties that the cluster has, in Spark's conf: "
                f'{{"{CLIENT_PROPERTIES}": "/mnt/kafka/client.properties"}}, or "credential:<alias>" of a Hadoop '
                "credential provider.",
            )
        )
    folder = Path(tempfile.mkdtemp(prefix="kafka-offsets-"))  # mode 0700
    try:
        file = folder / "client.properties"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as text:
            text.write(as_properties(java))
        options = " ".join(shlex.quote(f"-D{name}={value}") for name, value in system_properties(java).items())
        names = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions") if options else ()
        yield {
            CLIENT_PROPERTIES: f"{_ONE_TIME_FILE}{file}",
            **{name: f"{configured.get(name, '')} {options}".strip() for name in names},
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_texts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with each PEM file's text instead of its path: no executor needs the file.

    :raises InvalidRequest: naming a file that cannot be read, or a key that does not open.
    """
    texts = dict(settings)
    for stem in _PEM:
        path = texts.get(f"{stem}.location")
        if path not in (None, "probe"):  # probe: the machine's own authorities
            del texts[f"{stem}.location"]
            texts.setdefault(f"{stem}.pem", _text_of(f"{stem}.location", path))
    if "ssl.key.pem" in texts:
        texts["ssl.key.pem"] = _plain_key(texts["ssl.key.pem"], texts.pop("ssl.key.password", None))
    return texts


def _text_of(name: str, path: Any) -> str:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) or os.stat(path).st_size > _PEM_BYTES:
            raise OSError(0, f"it is no file of at most {_PEM_BYTES} bytes")  # a device or a pipe may have no end
        return Path(path).read_text("utf-8")
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__  # never what is in the file
        raise InvalidRequest((f"{name} is {path!r}, which cannot be read here: {reason}.",)) from None


def _plain_key(pem: Any, password: Any) -> str:
    """As PKCS#8, which is all that Java takes, and opened: its password would lie beside it in the same file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(str(pem).encode(), str(password).encode() if password else None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        problem = "ssl.key.pem (or .location) is no private key that ssl.key.password opens."
        raise InvalidRequest((problem,)) from None
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, plain).decode()
