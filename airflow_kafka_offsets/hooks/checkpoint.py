# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The checkpoint location that Airflow is configured with, opened with the credentials of Airflow's connections."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, conf

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.store.location import Location
from airflow_kafka_offsets.store.open import open_store
from airflow_kafka_offsets.store.protocol import Store

_EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "azure"}
_LOCAL_EXECUTORS = {"LocalExecutor", "SequentialExecutor"}
# Set by Airflow's executor for Kubernetes, and by Amazon's for ECS and Batch, in the containers that they start.
_MARKS = ("AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER")


def configured_store(checkpoint_location: str | None = None) -> Store:
    """The store at ``checkpoint_location``, else at ``[kafka_offsets] checkpoint_location``, else in ``AIRFLOW_HOME``.

    :raises InvalidRequest: a folder of one machine, where tasks may run on several.
    """
    chosen = checkpoint_location or conf.get("kafka_offsets", "checkpoint_location", fallback="")
    if "://" not in chosen and (elsewhere := runs_elsewhere()):
        raise InvalidRequest((_of_one_machine(chosen, elsewhere),))
    return open_store(chosen or _default(), _credentials)


def _default() -> str:
    """A folder in ``AIRFLOW_HOME``, which is made here: that one is on the machine's own disk."""
    home = os.path.abspath(os.path.expanduser(os.environ.get("AIRFLOW_HOME", "~/airflow")))
    Path(home, "kafka_offsets").mkdir(parents=True, exist_ok=True)
    return f"file://{home}/kafka_offsets"


# ── one machine, or several ───────────────────────────────────────────────────────────────────────────────────────────


def runs_elsewhere() -> str:
    """What may run tasks on another machine, for a message; empty if all of them run on this one.

    ``[core] executor`` is the scheduler's setting. A worker works without it and then reads Airflow's default,
    ``LocalExecutor``. So a process that is a worker's own counts, whatever is configured.
    """
    names = filter(None, map(str.strip, re.split("[,;]", conf.get("core", "executor", fallback="LocalExecutor"))))
    # ``team=Executor``, ``team:Executor``, an alias (``alias:path.Executor``) or a path
    not_local = [name for name in names if re.split("[=:.]", name)[-1] not in _LOCAL_EXECUTORS]
    if not_local:
        return ", ".join(not_local)
    if sys.argv[2:3] == ["worker"]:  # ``airflow celery worker``; its tasks are forks of it
        return f"`airflow {sys.argv[1]} worker`"
    return next((mark for mark in _MARKS if os.environ.get(mark)), "")


def _of_one_machine(chosen: str, elsewhere: str) -> str:
    """Two workers with a folder each would read some records twice and skip others, in green runs."""
    what = f"checkpoint_location {chosen} is a folder" if chosen else "checkpoint_location is not set"
    return (
        f"{what}, and {elsewhere} may run tasks on several machines. Set [kafka_offsets] checkpoint_location "
        "(AIRFLOW__KAFKA_OFFSETS__CHECKPOINT_LOCATION) to a place that all of them and the Spark drivers reach, such "
        "as s3://bucket/folder. For a folder on a disk that all of them share, write file:///folder."
    )


# ── Airflow's connections → obstore's options ─────────────────────────────────────────────────────────────────────────


def _credentials(location: Location) -> Mapping[str, Any]:
    if location.connection is None:
        return {}  # the environment's
    try:
        found = BaseHook.get_connection(location.connection)  # asked here: Amazon's hook goes on without it
    except AirflowNotFoundException:
        problem = f"checkpoint_location {location.uri} names a connection that does not exist: {location.connection!r}."
        raise InvalidRequest((problem,)) from None
    try:
        options = {"s3": _of_amazon, "gs": _of_google, "abfs": options_of_azure}[location.kind](found)
        return {name: value for name, value in options.items() if value is not None}
    except Exception as error:  # whatever a provider's library raises
        is_missing = isinstance(error, ImportError)
        raise StoreUnavailable(
            f"Cannot open the checkpoint location {location.uri}",
            f"{type(error).__name__}: {error}",
            f"Install Airflow's provider: pip install 'airflow-kafka-offsets[{_EXTRAS[location.kind]}]'"
            if is_missing
            else f"Check Airflow connection {location.connection}.",
            retriable=not is_missing,
        ) from None


def _of_amazon(connection: Any) -> Mapping[str, Any]:
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    from obstore.auth.boto3 import Boto3CredentialProvider

    hook = AwsBaseHook(aws_conn_id=connection.conn_id, client_type="s3")
    options: dict[str, Any] = {"credential_provider": Boto3CredentialProvider(hook.get_session())}
    if endpoint := hook.conn_config.get_service_endpoint_url("s3"):
        options["endpoint"] = endpoint
    if hook.verify is False:
        options["client_options"] = {"allow_invalid_certificates": True}
    elif isinstance(hook.verify, str):
        options["client_options"] = {"root_certificate": Path(hook.verify).read_bytes()}
    return options


def _of_google(connection: Any) -> Mapping[str, Any]:
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook
    from obstore.auth.google import GoogleCredentialProvider

    return {"credential_provider": GoogleCredentialProvider(GoogleBaseHook(connection.conn_id).get_credentials())}


def options_of_azure(connection: Any) -> Mapping[str, Any]:
    """As Airflow's ``WasbHook`` reads a connection of type ``wasb``, in its order: the first that is set counts."""
    extra = connection.extra_dejson
    if text := extra.get("connection_string"):
        return _of_connection_string(text)
    host = (connection.host or "").removeprefix("https://").rstrip("/")
    options = {"account_name": host.partition(".")[0] or connection.login}
    if tenant := extra.get("tenant_id"):
        return options | {"tenant_id": tenant, "client_id": connection.login, "client_secret": connection.password}
    if key := extra.get("shared_access_key"):
        return options | {"account_key": key}
    if sas := extra.get("sas_token"):
        return options | {"sas_key": sas.rpartition("?")[2]}
    if key := connection.password or extra.get("account_key"):
        return options | {"account_key": key}
    return options | {"client_id": extra.get("managed_identity_client_id")}


def _of_connection_string(text: str) -> Mapping[str, Any]:
    """obstore does not read one: https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string."""
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    protocol, suffix = parts.get("DefaultEndpointsProtocol", "https"), parts.get("EndpointSuffix", "core.windows.net")
    endpoint = parts.get("BlobEndpoint", f"{protocol}://{parts.get('AccountName')}.blob.{suffix}").rstrip("/")
    return {
        "account_name": parts.get("AccountName") or endpoint.partition("://")[2].partition(".")[0],
        "account_key": parts.get("AccountKey"),
        "sas_key": parts.get("SharedAccessSignature"),
        "endpoint": endpoint,
    }
