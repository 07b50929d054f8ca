# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The task that waits until there is something to plan for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.request import parse_some
from airflow_kafka_offsets.sensors.waiting import WaitingSensor
from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger


class PartitionDiscoverySensor(WaitingSensor):
    """Wait until the topics exist, have enough partitions, and every partition has a leader.

    XCom ``return_value``: how many partitions each topic has, ``{"orders": 6}``.

    :param topics: as in ``ResolveStartupOffsetsOperator``.
    :param min_partitions: how many partitions each topic must have, where ``topics`` does not name them.
    :param kafka_config_id: a ``kafka`` connection.
    :raises InvalidRequest: when the DAG is parsed.
    """

    template_fields: Sequence[str] = ("topics", "kafka_config_id")

    def __init__(
        self,
        *,
        topics: Sequence[str] | str | Mapping[str, Sequence[int]],
        min_partitions: int = 1,
        kafka_config_id: str = "kafka_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics, self.min_partitions, self.kafka_config_id = topics, min_partitions, kafka_config_id
        parse_some({"topics": topics})

    def make_trigger(self, context: Any, until_ms: int) -> PartitionDiscoveryTrigger:
        return PartitionDiscoveryTrigger(
            kafka_config_id=self.kafka_config_id,
            topics=self.topics,
            min_partitions=self.min_partitions,
            poke_interval=self.poke_interval,
            until_ms=until_ms,
        )
