# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The URI of a checkpoint location → its store, by default with the credentials of the environment.

obstore reads them: ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``, web identity
and the roles of instances and containers; ``GOOGLE_APPLICATION_CREDENTIALS``, Google's metadata server;
``AZURE_STORAGE_ACCOUNT_KEY``, ``AZURE_CLIENT_ID``, Azure's managed identities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.store.cloud import CLIENT_OPTIONS, RETRY_CONFIG, CloudStore, words
from airflow_kafka_offsets.store.local import LocalStore
from airflow_kafka_offsets.store.location import Location, location_of
from airflow_kafka_offsets.store.protocol import Store

_KINDS: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "abfs": AzureStore}


def open_store(uri: str, credentials: Callable[[Location], Mapping[str, Any]] | None = None) -> Store:
    """Return the store at ``uri``. It is not used yet.

    :param credentials: gives the options of obstore's store for a location; by default none, so that obstore takes the
        environment's.
    :raises InvalidRequest: no store has this URI, or it names a connection and there is no Airflow to look it up.
    :raises StoreUnavailable: the credentials have a form that obstore does not accept.
    """
    location = location_of(uri)
    if location.kind == "file":
        return LocalStore(Path(location.folder), uri)
    options = {"retry_config": RETRY_CONFIG, **(credentials or _environment)(location)}
    options["client_options"] = {**CLIENT_OPTIONS, **options.get("client_options", {})}
    if location.account:
        options["account_name"] = location.account
    try:
        store = _KINDS[location.kind](location.bucket, prefix=location.folder or None, **options)
    except (BaseError, ValueError) as error:
        raise StoreUnavailable(
            f"Cannot open the checkpoint location {uri}",
            words(error),
            f"Check {f'Airflow connection {location.connection}' if location.connection else 'the environment'}.",
        ) from None
    return CloudStore(uri, location.driver_uri(options.get("account_name")), store)


def _environment(location: Location) -> Mapping[str, Any]:
    if location.connection is not None:
        raise InvalidRequest(
            (
                f"checkpoint_location {location.uri} names the connection {location.connection!r}, and there is no "
                "Airflow here to look it up: leave it out, and set the credentials in the environment.",
            )
        )
    return {}
