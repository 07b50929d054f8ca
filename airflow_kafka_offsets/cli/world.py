# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What is outside of this process: the cluster, the checkpoint location, the clock. Tests give another ``World``.

A cluster's settings may hold secrets: they go to its client, and no message repeats any of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow_kafka_offsets import clock
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import InvalidRequest, shown
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.store.location import location_of
from airflow_kafka_offsets.store.open import open_store
from airflow_kafka_offsets.store.protocol import Store

Settings = Mapping[str, Any]
WHICH_CLUSTER = (
    "Which cluster? Give one of --kafka-config-id ID (the connection that the DAG reads with), --bootstrap-servers "
    "HOST:PORT, --client-config FILE."
)


def _open_cluster(settings: Settings) -> Cluster:
    from airflow_kafka_offsets.broker.cluster import KafkaCluster

    return KafkaCluster(settings)


def _open_store(uri: str | None) -> Store:
    if uri and location_of(uri).connection is None:
        return open_store(uri)
    store: Store = _of_airflow("checkpoint", "--checkpoint-location", lambda hook: hook.configured_store(uri))
    return store


@dataclass(frozen=True, slots=True)
class World:
    """
    :ivar open_store: by a URI; ``None``: the one that Airflow is configured with.
    """

    open_cluster: Callable[[Settings], Cluster] = _open_cluster
    open_store: Callable[[str | None], Store] = _open_store
    now_ms: Callable[[], int] = clock.now_ms


def _of_airflow(hook: str, option: str, ask: Callable[[Any], Any]) -> Any:
    """Airflow is imported only where its configuration or its connections are asked for: that takes seconds."""
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")  # from 3.2 on, else it does not look in the database
    try:
        with redirect_stdout(sys.stderr):  # its log goes to the stream that it finds as standard output
            return ask(import_module(f"airflow_kafka_offsets.hooks.{hook}"))
    except ImportError as error:
        raise InvalidRequest((f"{option} needs Airflow, which cannot be imported: {error}.",)) from None


def client_settings(words: Mapping[str, Any]) -> Settings | None:
    """The settings of the cluster's client; ``None``: no cluster is given.

    :raises InvalidRequest: two are given, or the settings cannot be read.
    """
    servers, file, connection = words["bootstrap_servers"], words["client_config"], words["kafka_config_id"]
    if sum(given is not None for given in (servers, file, connection)) > 1 or (words["config"] and not servers):
        raise InvalidRequest((f"{WHICH_CLUSTER} --config goes with --bootstrap-servers.",))
    if connection is not None:
        found: Settings = _of_airflow(
            "kafka_offsets", "--kafka-config-id", lambda hook: hook.KafkaOffsetsHook(connection).client_config
        )
        return found
    try:
        if file is not None:
            return _parsed(read_text(file))
        return None if servers is None else {"bootstrap.servers": servers, **dict(map(_pair, words["config"]))}
    except ValueError as error:
        raise InvalidRequest((f"{'--config' if file is None else '--client-config'} {error}.",)) from None


def _parsed(text: str) -> Settings:
    if text.lstrip().startswith("{"):
        return dict(read_json(text))
    lines = map(str.strip, text.splitlines())
    return dict(_pair(line) for line in lines if line and line[0] not in "#!")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError("has a setting without '='; give key=value")
    return key.strip(), value.strip()


def read_text(path: str) -> str:
    """:raises ValueError: a sentence that follows an option's name."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"names the file {shown(path)}, which cannot be read: {reason}") from None
