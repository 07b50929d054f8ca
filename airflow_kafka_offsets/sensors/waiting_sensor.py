"""The base of the sensors: defaults and checks; one look, then the wait, in a worker or in the triggerer; its ends.

Airflow's base class waits in a worker only. What it does there with errors and a timeout (``soft_fail``,
``never_fail``, ``silent_fail``) is done here around a deferral too, so that a sensor fails alike wherever it waits.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import KafkaOffsetsError, RequestError, UnavailableError, refuse
from airflow_kafka_offsets.hooks.airflow_versions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralTimeout,
    conf,
)
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.page_link import PipelinePageLink
from airflow_kafka_offsets.hooks.tells_lineage import TellsLineage, servers_of
from airflow_kafka_offsets.hooks.templates import unsettled
from airflow_kafka_offsets.request.parameters import ScopeParameters, names_of, parameters_of
from airflow_kafka_offsets.request.problems import Problems
from airflow_kafka_offsets.request.subscription import default_pipeline_id, parse_scope
from airflow_kafka_offsets.request.times import parse_wait_ms
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.triggers.deferred_wait import LOOK_AGAIN, NotYet, WaitingTrigger, goes_on

if TYPE_CHECKING:
    from airflow_kafka_offsets.log.task_lineage import TaskLineage

# The trigger ends the wait, and says what is missing. Airflow's scheduler does, where no triggerer is there.
_GRACE = timedelta(minutes=2)


class WaitingSensor(TellsLineage, BaseSensorOperator):
    """Waits for what its trigger looks for; the trigger is the same whether it runs here or in the triggerer.

    :param deferrable: wait in the triggerer, without a worker slot. Default: yes, unless ``mode`` is given, or somebody
        has set ``[operators] default_deferrable`` to no.
    :param mode: where it is not deferrable: ``poke`` or ``reschedule``, as of every sensor.
    :param poke_interval: seconds between two looks, or a ``timedelta``. Default: a minute.
    :param timeout: how long to wait: seconds or a ``timedelta``. Default: ten minutes, unless somebody has set
        ``[sensors] default_timeout``.
    """

    kafka_config_id: str
    ui_color = "#e6f2e6"
    operator_extra_links = (PipelinePageLink(),)
    task_doc: ClassVar[str | None] = None  # what the UI shows where the DAG's author says nothing else

    def __init__(
        self,
        *,
        deferrable: bool | None = None,
        mode: str | None = None,
        poke_interval: timedelta | float = 60.0,
        timeout: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.wrong = Problems()
        if timeout is None and _is_set("sensors", "default_timeout"):
            timeout = conf.getfloat("sensors", "default_timeout")
        self._has_own_timeout = timeout is not None
        if mode is not None and mode not in self.valid_modes:
            self.wrong.append(f"mode is {mode!r}; use one of {', '.join(self.valid_modes)}.")
            mode = None
        super().__init__(
            poke_interval=self._seconds("poke_interval", poke_interval),
            timeout=self._seconds("timeout", TIMEOUT_S if timeout is None else timeout),
            mode=mode or "poke",
            **{"doc_md": self.task_doc, **kwargs},
        )
        self.deferrable = is_deferrable(mode) if deferrable is None else deferrable
        self._missing = ""  # of the last look
        self._topics_found: tuple[str, ...] = ()

    def _seconds(self, name: str, value: timedelta | float) -> float:
        return self.wrong.take(name, lambda: parse_wait_ms(value), 0) / 1000

    def execute(self, context: Any) -> Any:
        if self.deferrable:
            with self._failing_as_while_poking():
                return self._look_and_defer(context)
        try:
            return super().execute(context)
        except (AirflowSensorTimeout, AirflowSkipException) as ended:
            kind = AirflowSkipException if self.never_fail else type(ended)  # a timeout, too, as after a deferral
            missing = f" Still missing: {self._missing}" if self._missing else ""
            raise kind(f"{ended}{missing}") from ended

    def poke(self, context: Any) -> PokeReturnValue:
        self._missing = ""
        try:
            found = self._trigger(context).look()
            if not isinstance(found, NotYet):
                return PokeReturnValue(is_done=True, xcom_value=self._done(context, found))
        except UnavailableError as error:
            if not error.retriable:
                raise
            self._missing = str(error)
            self.log.warning("Waiting: %s", error)
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        else:
            self._missing = found.missing
            self.log.info("Waiting: %s", found.missing)
        return PokeReturnValue(is_done=False)

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Called with the trigger's event: what it found, what is missing, or that this has to look again."""
        with self._failing_as_while_poking():
            if "timeout" in event:
                raise self._timed_out(event["timeout"])
            if LOOK_AGAIN in event:
                return self._look_and_defer(context, event[LOOK_AGAIN])
            try:
                return self._done(context, event)
            except RequestError as error:
                raise AirflowFailException(str(error)) from None

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """As ``BaseSensorOperator``; also if the scheduler, not the trigger, ended the wait."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            if not isinstance(error.__cause__, TaskDeferralTimeout):
                raise
            raise AirflowSensorTimeout(
                f"Sensor has timed out: it has waited for {self.timeout:g} seconds, and no triggerer has said what is "
                "missing. Is one running? Without a triggerer, give mode='reschedule'."
            ) from error

    def _look_and_defer(self, context: Any, until_ms: int | None = None) -> Any:
        """What the first look has found; else it ends here, and :meth:`execute_complete` goes on."""
        until_ms = until_ms or now_ms() + round(self.timeout * 1000)
        try:
            result = self.poke(context)
        except KafkaOffsetsError as error:
            if not goes_on(error, self.silent_fail):
                raise
            self._missing = str(error)
            self.log.warning("Waiting: %s", error)
            result = PokeReturnValue(is_done=False)
        if not result.is_done:
            self._wait_in_the_triggerer(context, until_ms)
        return result.xcom_value

    def _wait_in_the_triggerer(self, context: Any, until_ms: int) -> None:
        """
        :raises TaskDeferred: the worker is free.
        :raises AirflowSensorTimeout: it is too late for that.
        """
        if now_ms() >= until_ms:
            raise self._timed_out(self._missing)
        trigger = self._trigger(context)
        trigger.until_ms, trigger.silent_fail = until_ms, self.silent_fail
        left = timedelta(milliseconds=until_ms - now_ms())
        self.defer(trigger=trigger, method_name="execute_complete", timeout=left + _GRACE)

    def _timed_out(self, missing: str) -> AirflowSensorTimeout:
        return AirflowSensorTimeout(
            f"Sensor has timed out: it has waited for {self.timeout:g} seconds. Still missing: {missing}"
        )

    @contextmanager
    def _failing_as_while_poking(self) -> Iterator[None]:
        """The same ends as ``BaseSensorOperator.execute`` makes of errors."""
        try:
            yield
        except AirflowSkipException:
            raise
        except (AirflowSensorTimeout, AirflowTaskTimeout, AirflowFailException) as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"Skipped, as soft_fail or never_fail says: {error}") from error
            raise
        except Exception as error:
            if self.never_fail:
                raise AirflowSkipException(f"Skipped, as never_fail says: {error}") from error
            raise

    def _done(self, context: Any, found: Mapping[str, Any]) -> Any:
        self._topics_found = tuple(found.get("topics") or found.get("newest_timestamps") or ())
        return self._report(context, found)

    def _task_lineage(self, *, is_over: bool) -> TaskLineage:
        from airflow_kafka_offsets.log.task_lineage import TaskLineage, of_topics

        topics = self._topics_asked() or self._topics_found
        return of_topics(servers_of(self.kafka_config_id), topics) if topics else TaskLineage()

    def _topics_asked(self) -> Sequence[str]:
        """The topics that Kafka is asked about, by name; none where a pattern finds them."""
        return parse_scope(parameters_of(ScopeParameters, self)).subscription.named

    @abstractmethod
    def _trigger(self, context: Any) -> WaitingTrigger:
        """What looks."""

    @abstractmethod
    def _report(self, context: Any, found: Mapping[str, Any]) -> Any:
        """The sensor's XCom, of what the trigger found."""


def watched_pipeline_id(sensor: Any, context: Any) -> str | None:
    """The pipeline_id of the resolve task that a sensor names in its own DAG; ``None`` where it names none."""
    named: str | None = sensor.pipeline_id
    if named or not sensor.resolve_task_id:
        return named
    group = sensor.group_id or kafka_hook(sensor.kafka_config_id).client_config.get("group.id")
    return default_pipeline_id(group, context["ti"].dag_id, sensor.resolve_task_id)


# ── a sensor's defaults: it waits deferred, for ten minutes ───────────────────────────────────────────────────────────
# Airflow's own defaults are a worker's slot and seven days: that is what a typing mistake in a topic's name then
# costs. What somebody has set as ``[operators] default_deferrable`` or ``[sensors] default_timeout`` holds here as
# elsewhere, also where it equals Airflow's own default. But where there is no ``airflow.cfg``, Airflow writes one
# with all of its options: in that file a line that has Airflow's default is nobody's word.


TIMEOUT_S = 600.0


def is_deferrable(mode: str | None) -> bool:
    """Whether a sensor without ``deferrable`` waits in the triggerer; one with a ``mode`` waits in that mode."""
    if mode is not None:
        return False
    return conf.getboolean("operators", "default_deferrable") if _is_set("operators", "default_deferrable") else True


def _is_set(section: str, key: str) -> bool:
    """Whether the environment has it, or an ``airflow.cfg`` where a person has written it."""
    if f"AIRFLOW__{section}__{key}".upper() in os.environ:
        return True
    # `conf.as_dict` would run what is configured as a command, and Airflow 3.0's DAG processor has one that fails.
    written = ConfigParser.get(conf, section, key, raw=True, fallback=None)  # the file alone
    if written is None:
        return False
    return written.strip().lower() != str(conf.get_default_value(section, key)).strip().lower() or not _is_airflows()


def _is_airflows() -> bool:
    """Whether Airflow itself has written the file: then it has all options of a section that hardly anybody sets."""
    options = conf.configuration_description["operators"]["options"]
    return all(ConfigParser.has_option(conf, "operators", name) for name in options)


# ── checks when the DAG is parsed, before there is a run to wait for ──────────────────────────────────────────────────
# What a template still decides is left to the run: it has its default meanwhile, and a problem that depends on it
# does not count.


class Known(Problems):
    """The values of a sensor's template fields that no template and no other task can change, and all its problems."""

    def __init__(self, sensor: Any) -> None:
        super().__init__(sensor.wrong)
        given = {name: getattr(sensor, name) for name in sensor.template_fields}
        self._undecided = unsettled(given)
        self._values = {name: value for name, value in given.items() if name not in self._undecided}

    def value(self, name: str) -> Any:
        """``None`` where a template decides, and where the sensor has no such field."""
        return self._values.get(name)

    @property
    def scope(self) -> ScopeParameters:
        return ScopeParameters(**{name: self.value(name) for name in names_of(ScopeParameters)})

    def check_what_all_have(self) -> None:
        """Topics, group, pipeline and work store. Which group it is the connection may say."""
        self.take_all(lambda: parse_scope(self.scope))
        self.check_work_store()

    def check_work_store(self) -> None:
        work_store = self.value("work_store")
        if work_store is not None:
            self.take_all(lambda: location_of(str(work_store)), "work_store")

    def refuse(self) -> None:
        """The last act of each sensor's ``__init__``.

        :raises InvalidRequest: with every problem that no template can put right.
        """
        refuse(self.without(self._undecided))
