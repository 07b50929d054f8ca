# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The Kafka provider's ``kafka`` connection → a cluster to ask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import InvalidRequest


class KafkaOffsetsHook(KafkaBaseHook):
    """Offsets of the cluster that a ``kafka`` connection leads to.

    OAuth, MSK's and Google's tokens and allow-listed callbacks work as in the base class.

    :param kafka_config_id: the connection; its extra is the librdkafka configuration.
    """

    def __init__(self, kafka_config_id: str = KafkaBaseHook.default_conn_name) -> None:
        super().__init__(kafka_config_id)  # type: ignore[no-untyped-call]  # the Kafka provider

    @cached_property
    def client_config(self) -> Mapping[str, Any]:
        """The librdkafka settings, with secrets: never log them.

        :raises InvalidRequest: the connection does not exist, has no ``bootstrap.servers``, or names a function that
            cannot be used.
        """
        try:
            config: Mapping[str, Any] = self.get_conn
        except AirflowNotFoundException:
            reason = 'it does not exist. Create a connection of type "kafka" with the extra {"bootstrap.servers": "…"}.'
        except (AttributeError, TypeError):  # the provider expects an object and does not look
            reason = 'its extra is not an object of librdkafka settings, such as {"bootstrap.servers": "host:9092"}.'
        except (ValueError, ImportError, AirflowException) as error:  # a callback, a token provider, no servers
            reason = f"{error}."
        else:
            return config
        raise InvalidRequest((f"kafka_config_id {self.kafka_config_id!r} cannot be used: {reason}",)) from None

    def _get_client(self, config: dict[str, Any]) -> Any:
        return config

    def open_cluster(self, *, deadline_s: float = 60.0) -> KafkaCluster:
        """A cluster to ask; close it, or use it as a context manager.

        :param deadline_s: seconds after which a question without an answer is an error.
        """
        return KafkaCluster(self.client_config, deadline_s=deadline_s)
