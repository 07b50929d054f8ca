# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The task that waits until no more records of a window are to be expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.run import run_context
from airflow_kafka_offsets.offsets import Timestamp
from airflow_kafka_offsets.request import parse_some
from airflow_kafka_offsets.sensors.waiting import WaitingSensor
from airflow_kafka_offsets.triggers.window_complete import WindowCompleteTrigger

_END_OF_INTERVAL = Timestamp()


class WindowCompleteSensor(WaitingSensor):
    """Wait until every partition has a record at or past the window's end, or is idle.

    A later record is in the window that is planned next, so nothing is lost without this wait. If the run's conf has a
    window, the sensor waits for that one.

    XCom ``return_value``: the window's end and the partitions that were idle, ``{"end_ms": …, "idle": ["orders-1"]}``.

    :param topics: as in ``ResolveStartupOffsetsOperator``.
    :param end: the window's end, exclusive; default: the end of the run's data interval.
    :param idle_timeout: how long to wait for an idle partition, after the window's end and the partition's last new
        record: seconds or a ``timedelta``. Default: five minutes.
    :param kafka_config_id: a ``kafka`` connection.
    :param timeout: how long to wait; default: ten minutes more than ``idle_timeout``.
    :raises InvalidRequest: when the DAG is parsed.
    """

    template_fields: Sequence[str] = ("topics", "end", "kafka_config_id")

    def __init__(
        self,
        *,
        topics: Sequence[str] | str | Mapping[str, Sequence[int]],
        end: Timestamp = _END_OF_INTERVAL,
        idle_timeout: timedelta | float = 300,
        kafka_config_id: str = "kafka_default",
        timeout: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.idle_timeout = idle_timeout if isinstance(idle_timeout, timedelta) else timedelta(seconds=idle_timeout)
        super().__init__(timeout=self.idle_timeout + timedelta(minutes=10) if timeout is None else timeout, **kwargs)
        self.topics, self.end, self.kafka_config_id = topics, end, kafka_config_id
        parse_some({"topics": topics, "end": end})
        if not isinstance(end, Timestamp):
            raise InvalidRequest((f"end is {end!r}, which is no time; give Timestamp().",))

    def make_trigger(self, context: Any, until_ms: int) -> WindowCompleteTrigger:
        run, end = run_context(context), self.end
        match run.conf:
            case {"window": [_, time]}:
                end = Timestamp(time)
        return WindowCompleteTrigger(
            kafka_config_id=self.kafka_config_id,
            topics=self.topics,
            end_ms=parse_some({"end": end}, run)["end"].ms,
            idle_timeout_ms=self.idle_timeout // timedelta(milliseconds=1),
            poke_interval=self.poke_interval,
            until_ms=until_ms,
        )
