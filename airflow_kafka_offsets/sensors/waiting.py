# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The base of the sensors: one look in the worker, then the wait in the triggerer.

A run with an act does not wait: the act may end the cause of the wait.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSensorTimeout
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.hooks.run import failing_at_once, run_context
from airflow_kafka_offsets.triggers.waiting import Missing, WaitingTrigger

# The trigger ends the wait and says what is missing. Airflow's scheduler ends it where no triggerer runs.
_GRACE = timedelta(minutes=2)
_ACTS = {"acknowledge", "reset", "skip"}


class WaitingSensor(BaseSensorOperator):
    """Waits for what its trigger looks for; the trigger is the same whether it runs here or in the triggerer.

    Where Kafka does not answer until the time is up, Airflow retries the task, which it never does after a time-out.

    :param deferrable: wait in the triggerer, without a worker slot; ``False``: as ``mode`` says.
    :param timeout: how long to wait, in seconds or as a ``timedelta``. Airflow's own default is a week, which is what a
        typing mistake in a topic's name would cost.
    """

    ui_color = "#e6f2e6"

    def __init__(self, *, deferrable: bool = True, timeout: timedelta | float = 600, **kwargs: Any) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.deferrable = deferrable
        self._trigger: WaitingTrigger | None = None  # it may remember what it has seen
        self._missing: Missing | None = None

    def execute(self, context: Any) -> Any:
        if has_act(context):
            return None
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                if self._missing is not None and self._missing.is_outage:
                    raise AirflowException(self._missing.words) from None
                raise
        seen = self.poke(context)
        if not seen.is_done:
            self.defer(**self.deferral("execute_complete"))
        return seen.xcom_value

    def deferral(self, method_name: str) -> dict[str, Any]:
        """The arguments of ``defer``, after a look that has not found what is waited for."""
        return {
            "trigger": self._trigger,
            "method_name": method_name,
            "timeout": timedelta(seconds=self.timeout) + _GRACE,
        }

    def poke(self, context: Any) -> PokeReturnValue:
        with failing_at_once(context):
            self._trigger = self._trigger or self.make_trigger(context, now_ms() + round(self.timeout * 1000))
            found = self._trigger.look_patiently()
        self._missing = found if isinstance(found, Missing) else None
        is_done = self._missing is None
        return PokeReturnValue(is_done=is_done, xcom_value=found if is_done else None)

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Called with the trigger's event."""
        return found_in(event, self.timeout)

    @abstractmethod
    def make_trigger(self, context: Any, until_ms: int) -> WaitingTrigger:
        """What looks."""


def has_act(context: Any) -> bool:
    """Whether a person tells a pipeline something in the run's conf."""
    conf = run_context(context).conf
    return isinstance(conf, Mapping) and not _ACTS.isdisjoint(conf)


def found_in(event: Mapping[str, Any], timeout_s: float) -> Any:
    """What the trigger has found.

    :raises AirflowException: Kafka did not answer. Airflow retries the task.
    :raises AirflowSensorTimeout, AirflowFailException: it was not there in time, or waiting cannot help.
    """
    match event:
        case {"found": found}:
            return found
        case {"outage": words}:
            raise AirflowException(f"Waited for {timeout_s:g} seconds without an answer: {words}")
        case {"timeout": words}:
            raise AirflowSensorTimeout(f"Waited for {timeout_s:g} seconds. Still missing: {words}")
    raise AirflowFailException(event["error"])
