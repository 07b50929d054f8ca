# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Looks for topics until they exist and can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.errors import NothingToDiscover, listed
from airflow_kafka_offsets.kafka_values import PartitionSet
from airflow_kafka_offsets.request import parse_some
from airflow_kafka_offsets.triggers.waiting import Missing, WaitingTrigger, open_cluster, rendered


@dataclass(eq=False, repr=False, kw_only=True)
class PartitionDiscoveryTrigger(WaitingTrigger):
    """Fires how many partitions each topic has, once nothing is missing: one question a look."""

    kafka_config_id: str
    topics: Any
    min_partitions: int

    def look(self) -> dict[str, int] | Missing:
        subscription = parse_some({"topics": self.topics}, rendered())["topics"]
        with open_cluster(self.kafka_config_id) as cluster:
            try:
                topics = cluster.describe(subscription).topics
            except NothingToDiscover as error:
                return Missing(listed(error.partitions))
        few = 0 if isinstance(subscription, PartitionSet) else self.min_partitions
        missing = [
            f"{name} has {len(topic.leaders)} of {few} partitions"
            for name, topic in sorted(topics.items())
            if len(topic.leaders) < few
        ]
        missing += [
            f"{name}-{number} has no leader"
            for name, topic in sorted(topics.items())
            for number, leader in sorted(topic.leaders.items())
            if leader is None
        ]
        return Missing(listed(missing)) if missing else {name: len(topic.leaders) for name, topic in topics.items()}
