# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Looks at the newest timestamps of partitions until a window is complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import NothingToDiscover, listed
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.request import parse_some
from airflow_kafka_offsets.times import iso
from airflow_kafka_offsets.triggers.waiting import Missing, WaitingTrigger, open_cluster, rendered


@dataclass(eq=False, repr=False, kw_only=True)
class WindowCompleteTrigger(WaitingTrigger):
    """Fires the window's end and the idle partitions, once each has a record at or past the end, or is idle.

    When a partition's newest timestamp moved is remembered here, and only here: a triggerer that restarts counts from
    the window's end again.
    """

    kafka_config_id: str
    topics: Any
    end_ms: int
    idle_timeout_ms: int
    _newest: dict[TopicPartition, int] = field(init=False, default_factory=dict)
    _moved_ms: dict[TopicPartition, int] = field(init=False, default_factory=dict)

    def look(self) -> dict[str, Any] | Missing:
        subscription = parse_some({"topics": self.topics}, rendered())["topics"]
        with open_cluster(self.kafka_config_id) as cluster:
            try:
                partitions = cluster.describe(subscription).partitions
            except NothingToDiscover as error:
                return Missing(listed(error.partitions))
            newest = cluster.newest_timestamps(partitions, "read_uncommitted")
        now = now_ms()
        moved = [tp for tp in self._newest.keys() & newest.keys() if self._newest[tp] != newest[tp]]
        self._moved_ms |= dict.fromkeys(moved, now)
        self._newest = newest
        behind = [tp for tp in partitions if newest.get(tp, -1) < self.end_ms]
        waiting = [tp for tp in behind if now < max(self.end_ms, self._moved_ms.get(tp, 0)) + self.idle_timeout_ms]
        if waiting:
            last = {
                tp: f"its newest record is of {iso(newest[tp])}" if tp in newest else "it has none" for tp in waiting
            }
            return Missing(listed(f"{tp} has no record at or past {iso(self.end_ms)}: {last[tp]}" for tp in waiting))
        return {"end_ms": self.end_ms, "idle": [str(tp) for tp in behind]}
