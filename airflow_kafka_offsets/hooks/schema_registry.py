# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""An Airflow connection → a schema registry. Its type is not looked at; ``http`` has the fields that are needed."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.rows.registry import Registry


def registry_of(conn_id: str) -> Registry:
    """The registry of a connection: host (or its whole URL), schema and port; login and password, or a ``token``.

    The extra may have ``token``, ``ca_file``, and ``cert_file`` (PEM of this client's certificate and key).

    :raises InvalidRequest: there is no such connection, or it has no host.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise InvalidRequest(
            (f"The schema registry's connection {conn_id!r} does not exist. Create one of type 'http'.",)
        ) from None
    host = connection.host
    if not host:
        raise InvalidRequest(
            (f"The schema registry's connection {conn_id!r} has no host. Set it to the registry's URL.",)
        )
    url = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    if connection.port and "://" not in host:
        address, slash, path = url.partition("://")[2].partition("/")
        url = f"{url.partition('://')[0]}://{address}:{connection.port}{slash}{path}"
    extra = connection.extra_dejson
    return Registry(
        url.rstrip("/"),
        user=connection.login or None,
        password=connection.password or None,
        token=extra.get("token"),
        ca_file=extra.get("ca_file"),
        cert_file=extra.get("cert_file"),
    )
