"""An Airflow connection → the settings of a schema registry's client.

The type of the connection is not looked at; ``http`` has the fields that are needed. Its host is a name, or the whole
URL with a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.airflow_versions import AirflowNotFoundException, BaseHook

if TYPE_CHECKING:
    from airflow_kafka_offsets.broker.schema_registry import RegisteredSchemas

_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password")
_BESIDE_A_TOKEN = ("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")
"""The client insists on both; only Confluent's cloud looks at them."""


def registered_schemas(conn_id: str, subjects: Sequence[str], version: int | None) -> RegisteredSchemas:
    """What the registry of a connection has of the subjects now; see ``broker/schema_registry.py``.

    :raises InvalidRequest: the connection, a subject or the version is wrong.
    :raises RegistryUnavailable: there is no answer within 15 s, or no right.
    """
    from airflow_kafka_offsets.broker.schema_registry import subject_schemas

    return subject_schemas(registry_config(conn_id), subjects, version)


def registry_config(conn_id: str) -> dict[str, str]:
    """Settings as ``SchemaRegistryClient`` takes them, with secrets: never log them.

    ``url`` is there always. A login gives ``basic.auth.user.info``; the extra's ``token`` gives ``bearer.auth.*``.

    :raises InvalidRequest: there is no such connection, or it says no address, two logins, or what is no text.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise _refused(
            conn_id,
            "is not there: create one of type 'http' with the registry's host, schema and port, or name another",
        ) from None
    extra = connection.extra_dejson
    known = (*_FILES, *_BESIDE_A_TOKEN, "token")
    if not isinstance(extra, dict) or not all(isinstance(extra.get(name, ""), str) for name in known):
        raise _refused(conn_id, "has an extra that is no object of texts: correct its token and its ssl.* settings")
    token = extra.get("token", "").strip()
    if token and connection.login:
        raise _refused(conn_id, "has a login and a token: leave out one of them")
    config = {"url": _url(conn_id, connection.host, connection.schema, connection.port)}
    config |= {name: extra[name] for name in _FILES if extra.get(name)}
    if connection.login:
        config["basic.auth.user.info"] = f"{connection.login}:{connection.password or ''}"
    if token:
        config |= {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": token}
        config |= {name: extra.get(name, "") for name in _BESIDE_A_TOKEN}
    return config


def _url(conn_id: str, host: str | None, schema: str | None, port: int | None) -> str:
    """``host`` may say schema, port and path itself; where it does not, the fields do."""
    if not host:
        raise _refused(conn_id, "has no host: set it to the registry's, or to its whole URL")
    try:
        parts = urlsplit(host if "://" in host else f"{schema or 'http'}://{host}")
        own_port = parts.port
    except ValueError:
        raise _refused(conn_id, "has a host that is no address: correct it") from None
    if "@" in parts.netloc:
        raise _refused(conn_id, "has a login in its host: put it in the fields login and password")
    netloc = f"{parts.netloc}:{port}" if port and own_port is None else parts.netloc
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))


def _refused(conn_id: str, why: str) -> InvalidRequest:
    return InvalidRequest((f"The schema registry's connection {conn_id!r} {why}.",))
