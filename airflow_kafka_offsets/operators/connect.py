# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The Spark task of a batch over Spark Connect: the driver is the task itself, and its session is on a server.

Spark continues a write whose client was killed. So the session's id is made of the pipeline, and what runs there
carries the batch's key: the next attempt joins the session, and stops what still runs for its batch. The sinks' fences
hold where a commit is too far on to be stopped. Also, a session is twice as fast after its first batch.

A server ends a session that was idle for an hour, and takes its id no more. Nothing runs there then, so the next id is
taken.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowNotFoundException
from airflow.sdk import BaseOperator

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.operators.commit import log_of
from airflow_kafka_offsets.operators.spark_task import BatchTask

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import PlanReference

_ENDED = "INVALID_HANDLE.SESSION_CLOSED"
_SHARED = 20
"""How many batches have the same ids one after the other: so many of them may have ended, and each is asked for."""
_SESSIONS: list[Any] = []
"""All of this process, so that none is collected: it would close the threads that they share, and wait for them, in any
thread. One that is just starting would wait for those that wait until it has started."""
_USER = "airflow"  # a session belongs to a user; without one, pyspark takes that of the worker's process


@dataclass(frozen=True, slots=True)
class DriverStore:
    """The checkpoint location as a driver takes it. It never writes a name twice."""

    get: Callable[[str], bytes | None]
    put: Callable[[str, bytes], Any]
    list: Callable[[str], list[str]]


class SparkConnectBatchOperator(BatchTask, BaseOperator):
    """Run the job of this package in the task itself, in a session of a Spark Connect server. No JVM is started.

    :param plan: the resolve task's XCom: ``resolve.output["plan"]``.
    :param conn_id: a ``spark_connect`` connection of the Spark provider.
    :raises AirflowFailException: what no retry can mend: the job, its output, or too many bad records.
    """

    template_fields: Sequence[str] = ("plan", "conn_id")
    ui_color = "#e6f2e6"

    def __init__(self, *, plan: Mapping[str, Any] | Any, conn_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan, self.conn_id = plan, conn_id
        self._spark: Any = None
        self._tag = uuid.uuid4().hex  # its own: a task that is killed late must not stop the next attempt

    def on_kill(self) -> None:
        if self._spark is not None:
            self._spark.interruptTag(self._tag)

    def run_job(self, given: PlanReference, context: Any) -> None:
        from airflow_kafka_offsets.spark.errors import BatchError

        store = log_of(given).store
        with self._kafka(given, {}) as settings, self._session(given) as spark:
            try:
                for name, value in settings.items():
                    spark.conf.set(name, value)
                self._job(spark, self.plan["arguments"], DriverStore(store.get, store.create, store.list))
            except BatchError as error:
                if error.is_final:
                    raise AirflowFailException(str(error)) from error
                raise
            finally:
                for name in settings:  # the next batch has a file of its own, or none
                    spark.conf.unset(name)

    def _job(self, spark: Any, arguments: Sequence[str], store: DriverStore) -> None:
        from airflow_kafka_offsets.spark.jobs.write_batch import write_batch

        write_batch(spark, arguments, store)

    def _kafka(self, given: PlanReference, configured: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        from airflow_kafka_offsets.hooks.spark_kafka import handed_over

        return handed_over(given.kafka_config_id, configured, cluster_mode=False)

    def _shares_session(self, given: PlanReference) -> str:
        """Windows and rewrites run side by side, and a session has one set of settings: each has its own."""
        return f"{given.pipeline}/{given.key}" if given.window or given.is_rewrite else given.pipeline

    @contextmanager
    def _session(self, given: PlanReference) -> Iterator[Any]:
        """The task's session. Nothing of an earlier attempt runs there, and nothing of this one afterwards."""
        logging.getLogger("SQLQueryContextLogger").disabled = True  # repeats each error with its Java stack
        os.environ.setdefault("SPARK_USER", _USER)
        spark, stopped = self._join(given)
        try:
            if stopped:
                self.log.info("Stopped what an earlier attempt at batch %s had left running: %s", given.key, stopped)
            for tag in (given.key, self._tag):
                spark.addTag(tag)
            self._spark = spark
            yield spark
        except BaseException:  # a time-out, too
            self.on_kill()
            raise
        finally:
            self._spark = None
            spark.stop()

    def _join(self, given: PlanReference) -> tuple[Any, Sequence[str]]:
        """The session, and what was stopped there."""
        from pyspark.errors.exceptions.connect import SparkConnectGrpcException
        from pyspark.sql import SparkSession

        name = f"{given.checkpoint_location} {self._shares_session(given)} {given.batch // _SHARED}"
        for ended in count():
            session_id = uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {ended}")
            spark = SparkSession.builder.remote(f"{self._url};session_id={session_id}").create()
            _SESSIONS.append(spark)
            spark.release_session_on_close = False  # no server takes an id again that was released
            try:
                stopped = spark.interruptTag(given.key)
            except SparkConnectGrpcException as error:
                spark.stop()
                if _ENDED not in str(error):
                    raise
                continue
            self.log.info("Batch %s has the Spark Connect session %s.", given.key, session_id)
            return spark, stopped
        raise AssertionError("unreachable")

    @property
    def _url(self) -> str:
        """With the connection's token: never log it.

        :raises InvalidRequest: the connection does not exist.
        """
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        try:
            return str(SparkConnectHook(self.conn_id).get_connection_url())
        except AirflowNotFoundException:
            problem = f"There is no connection {self.conn_id!r}. Create one of type 'spark_connect' with host and port."
            raise InvalidRequest((problem,)) from None
