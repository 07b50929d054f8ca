"""An Airflow Kafka connection → settings of ``spark-submit``, so that the driver reads the same cluster.

Secrets go by a file that its owner alone may read, in a folder that its owner alone may enter. Its path is a Spark
setting; arguments, settings and variables are shown to more people than that. The driver removes the file when it has
read it, and the task when the driver has ended.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.broker.java_client import (
    BOOTSTRAP_SERVERS,
    as_properties,
    is_secured,
    java_client,
    system_properties,
)
from airflow_kafka_offsets.errors import InvalidRequest, refuse
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.spark.client_properties import CREDENTIAL, HANDED_OVER, SETTING, SOURCE_PREFIX

_PEM = ("ssl.ca", "ssl.certificate", "ssl.key", "https.ca")
_PEM_BYTES = 4 * 1024 * 1024  # a machine's own authorities have some hundred KiB
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


def where_on_the_cluster(kafka: Mapping[str, str]) -> dict[str, str]:
    """The Spark setting of a user who says where the driver finds its ``client.properties``; ``{}``: nowhere.

    :raises InvalidRequest: it is not one of the two ways.
    """
    if not kafka:
        return {}
    (name, value), *more = kafka.items()
    if more or name not in ("file", "credential") or not isinstance(value, str) or not value:
        raise InvalidRequest(
            (
                f"kafka has {sorted(kafka)}. Give the name of a Kafka connection of Airflow, to hand that over; or "
                '{"file": "/path/of/client.properties"}, or {"credential": "alias"} of a Hadoop credential provider, '
                "which the driver finds where it runs; or {} for nothing.",
            )
        )
    return {SETTING: value if name == "file" else f"{CREDENTIAL}{value}"}


@contextmanager
def handed_over(
    connection: str, configured: Mapping[str, str], *, cluster_mode: bool, own: bool = False
) -> Iterator[dict[str, str]]:
    """In the block there is a file with the connection's settings; the Spark settings that name it.

    No file where the connection has no more than an address.

    :param connection: its id.
    :param configured: Spark's settings so far.
    :param cluster_mode: whether the driver runs elsewhere, where this machine's files are not.
    :param own: whether it is another connection than that of the plan, whose address the job's arguments have.
    :raises InvalidRequest: a setting has no counterpart in Java's client, a file cannot be read, or the driver runs
        elsewhere.
    """
    java = java_client(_with_texts(kafka_hook(connection).client_config))
    if not is_secured(java):
        yield {f"{SOURCE_PREFIX}kafka.{BOOTSTRAP_SERVERS}": java[BOOTSTRAP_SERVERS]} if own else {}
        return
    if cluster_mode:
        raise InvalidRequest(
            (
                f"Kafka connection {connection!r} has credentials, and the driver runs on the cluster, where this "
                "worker's files are not. Give it what the cluster has: "
                'kafka={"file": "/mnt/kafka/client.properties"} (a Kubernetes secret that is mounted, a path that is '
                'there) or kafka={"credential": "alias"} (a Hadoop credential provider); or kafka={} for nothing.',
            )
        )
    folder = Path(tempfile.mkdtemp(prefix="kafka-offsets-"))  # mode 0700
    try:
        file = folder / "client.properties"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as text:
            text.write(as_properties(java))
        yield {SETTING: f"{HANDED_OVER}{file}", **_java_options(java, configured)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _java_options(java: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    added = " ".join(shlex.quote(f"-D{name}={value}") for name, value in system_properties(java).items())
    return {name: f"{configured.get(name, '')} {added}".strip() for name in _JAVA_OPTIONS if added}


def _with_texts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with each PEM file's text instead of its path: no executor needs the file.

    :raises InvalidRequest: naming each file that cannot be read, and each setting that is no text.
    """
    found = {name: value for name, value in settings.items() if value is not None}
    texts = {name for stem in _PEM for name in (f"{stem}.location", f"{stem}.pem")}
    problems = [f"{name} is no text." for name in sorted(found) if not _is_setting(found[name], name in texts)]
    for stem in _PEM if not problems else ():
        path = found.pop(f"{stem}.location", None)
        if path == "probe":  # the machine's own authorities
            found[f"{stem}.location"] = path
        elif path is not None:
            try:
                found.setdefault(f"{stem}.pem", _text_of(path))
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or type(error).__name__  # never what is in the file
                problems.append(f"{stem}.location is {path!r}, which cannot be read here: {why}.")
    if "ssl.key.pem" in found and not problems:
        try:
            found["ssl.key.pem"] = _plain_key(found["ssl.key.pem"], found.pop("ssl.key.password", None))
        except (TypeError, ValueError):
            problems.append("ssl.key.pem (or .location) is no private key that ssl.key.password opens.")
    refuse(problems)
    return found


def _is_setting(value: object, of_text: bool) -> bool:
    """Whether it is of a kind that a setting may have; a list's Python text would be a password that nobody chose."""
    return isinstance(value, str) if of_text else not isinstance(value, list | dict)


def _text_of(path: str) -> str:
    """:raises OSError: it is no file, or has more than any PEM has. :raises ValueError: it is no text, or no path."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # what is read from a device or a pipe may have no end
        raise OSError(errno.EINVAL, "it is no regular file")
    with open(path, "rb") as file:
        text = file.read(_PEM_BYTES + 1)
    if len(text) > _PEM_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {_PEM_BYTES} bytes")
    return text.decode()


def _plain_key(pem: str, password: object) -> str:
    """As PKCS#8, which is all that Java takes, and opened, since librdkafka opens more kinds than Java does.

    The password would lie beside the key in the same file.

    :raises ValueError, TypeError: it is no key that this worker can open.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    try:
        key = load_pem_private_key(pem.encode(), str(password).encode() if password else None)
    except UnsupportedAlgorithm:
        raise ValueError from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
