"""The Kafka provider's ``kafka`` connection → a :class:`KafkaCluster`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.airflow_versions import AirflowException, AirflowNotFoundException, conf


class KafkaOffsetsHook(KafkaBaseHook):
    """Offsets of the cluster that a ``kafka`` connection leads to.

    OAuth, MSK's and Google's tokens and the allow-listed callbacks come with the base class: it builds the settings and
    hands them to ``_get_client``, the provider's extension point.

    :param kafka_config_id: the connection; its extra is the librdkafka configuration.
    """

    def __init__(self, kafka_config_id: str = KafkaBaseHook.default_conn_name) -> None:
        super().__init__(kafka_config_id)  # type: ignore[no-untyped-call]  # the Kafka provider

    @cached_property
    def client_config(self) -> Mapping[str, Any]:
        """The librdkafka settings, with secrets: never log them.

        :raises InvalidRequest: there is no such connection, it has no ``bootstrap.servers``, or it names a function
            that is not allowed or cannot be imported.
        """
        try:
            config: Mapping[str, Any] = self.get_conn
        except ValueError as error:
            raise InvalidRequest((f"kafka_config_id {self.kafka_config_id!r} cannot be used: {error}",)) from None
        except (AttributeError, TypeError):  # the Kafka provider takes it for what it should be
            raise InvalidRequest(
                (
                    f"kafka_config_id {self.kafka_config_id!r} cannot be used: its extra is no object of librdkafka "
                    'settings, each a text, a number, true or false, such as {"bootstrap.servers": "host:9092"}.',
                )
            ) from None
        except AirflowNotFoundException:
            raise InvalidRequest(
                (
                    f"kafka_config_id is {self.kafka_config_id!r}, and there is no such connection: create one of "
                    'type \'kafka\' whose extra holds at least {"bootstrap.servers": "host:9092"}, or name another.',
                )
            ) from None
        except ImportError as error:
            raise InvalidRequest(
                (
                    f"kafka_config_id {self.kafka_config_id!r} names a function, such as its oauth_cb, that cannot be "
                    f"imported here: {error}. Correct its path, or install its package where Airflow's tasks run.",
                )
            ) from None
        except AirflowException as error:  # a part of the Kafka provider is not installed
            raise InvalidRequest((f"kafka_config_id {self.kafka_config_id!r} cannot be used: {error}.",)) from None
        return config

    def _get_client(self, config: dict[str, Any]) -> Any:
        return config

    def open_cluster(self, *, deadline_s: float = 60.0) -> KafkaCluster:
        """A cluster to ask; close it, or use it as a context manager."""
        return KafkaCluster(self.client_config, deadline_s=deadline_s)


def configured_retention_days() -> str | None:
    """``[kafka_offsets] retention_days`` as a duration (``90d``); ``None`` where nothing is removed."""
    days = conf.get("kafka_offsets", "retention_days", fallback="")
    return f"{days.strip()}d" if days and days.strip() else None
