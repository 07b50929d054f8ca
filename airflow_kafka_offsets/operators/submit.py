# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The Spark task of a batch: what it submits, and which driver it may re-attach to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import unwrap
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    BaseHook,
)

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.class_archive import SMALL_JVM, class_archive
from airflow_kafka_offsets.hooks.run import clears_of
from airflow_kafka_offsets.hooks.spark_installation import (
    JOBS,
    SparkInstallation,
    find_spark,
    missing_packages,
    missing_settings,
    missing_variables,
    settings_of,
)
from airflow_kafka_offsets.operators.spark_task import BatchTask

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import PlanReference

PACKAGED_JOB = str(JOBS / "write_batch.py")

# Spark compares each assigned partition with each: many partitions need what SMALL_JVM leaves out.
_FEW_RECORDS, _FEW_PARTITIONS = 100_000, 1_000

# The provider's operator says the status in these words: docs/job-contract.md; and Java's own, by the option above.
_NO_RETRY, _OUT_OF_MEMORY = "Error code is: 78.", "Error code is: 3."
_DEFAULT_OPTIONS, _JAVA_OPTIONS = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
_EXIT = "-XX:+ExitOnOutOfMemoryError"  # else it may hang, and its task stays running
_MEMORY = "The driver may have run out of memory. Give it more (spark.driver.memory)"
_SMALLER = "; or make the batch smaller: lower max_records in the DAG, and trigger it with this conf:\n"


def _more_memory(given: PlanReference, *, is_committed: bool) -> str:
    from airflow_kafka_offsets.acts import conf_text

    if given.window is not None or is_committed:
        return f"{_MEMORY}."
    return _MEMORY + _SMALLER + conf_text(given.name, given.identity, reset={"start": "current"})


class SparkSubmitBatchOperator(BatchTask, SparkSubmitOperator):
    """``SparkSubmitOperator`` for a batch: its arguments are the job's own, then those of the plan.

    It completes what this worker's Spark lacks (PATH, Python, packages) and hands the Kafka connection's credentials to
    the driver in a file that only its owner can read. It does not submit a batch that has been written already and
    whose records are gone from Kafka. A driver that runs out of memory ends (``-XX:+ExitOnOutOfMemoryError``), unless
    Java options of your own say what then happens.

    In a cluster mode the provider's operator re-attaches to the driver of an earlier try (``durable``). This one does
    so only for a driver of the same plan: another plan, or a clear, submits a new driver.

    :param plan: the resolve task's XCom: ``resolve.output["plan"]``.
    :param application: the PySpark job; default: the one in this package, which writes to the sink of the task group.
    :param application_args: the job's own arguments; the plan's follow.
    :param packages: Maven coordinates. Default: Spark's Kafka source and what the sink needs, as far as nothing else
        configures them; ``""`` where the cluster has all of it.
    :param fast_start: in client mode, let the driver's JVM map Spark's classes from an archive, if
        ``python -m airflow_kafka_offsets.hooks.class_archive`` has written one on this worker; and, for batches of at
        most 100,000 records and 1,000 partitions, start it with ``-XX:TieredStopAtLevel=1 -XX:+UseSerialGC``.
    :raises AirflowFailException: this worker has no ``spark-submit`` or no Java, or the credentials cannot be handed
        over, and nothing was submitted; or the job has ended with status 78: no retry can mend it.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "plan")
    ui_color = "#e6f2e6"

    def __init__(
        self,
        *,
        plan: Mapping[str, Any] | Any,
        application: str = PACKAGED_JOB,
        conn_id: str = "spark_default",
        deploy_mode: str | None = None,
        spark_binary: str | None = None,
        fast_start: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=application, conn_id=conn_id, deploy_mode=deploy_mode, spark_binary=spark_binary, **kwargs
        )
        self.plan, self.fast_start = plan, fast_start
        self.conn_id, self.deploy_mode, self.spark_binary = conn_id, deploy_mode, spark_binary
        self._clears = ""

    def run_job(self, given: PlanReference, context: Any) -> None:
        self._clears = clears_of(context)
        self.application_args = [*map(str, self.application_args or ()), *self.plan["arguments"]]
        configured = self._complete(given, self.plan["formats"])
        with self._kafka(given, configured) as settings:
            self.conf = {**(self.conf or {}), **settings}
            try:
                unwrap(SparkSubmitOperator.execute)(self, context)  # as its own execute, or as a step of another
            except AirflowException as error:
                if _NO_RETRY in str(error):
                    raise AirflowFailException(str(error)) from None
                if _OUT_OF_MEMORY in str(error):
                    is_committed = given.is_rewrite or self.is_behind_the_commit
                    raise AirflowException(f"{_more_memory(given, is_committed=is_committed)}\n{error}") from None
                raise

    # ── what this worker's Spark lacks ────────────────────────────────────────────────────────────────────────────────

    def _complete(self, given: PlanReference, formats: Sequence[str]) -> dict[str, str]:
        """Complete the settings. Returns all of them.

        :raises InvalidRequest: no driver could be started here.
        """
        spark = find_spark(self.spark_binary or self._connection.get("spark-binary") or "spark-submit", os.environ)
        os.environ.update(missing_variables(spark, os.environ))
        configured = settings_of(spark, self.properties_file, self.conf or {}, os.environ)
        self.conf = {
            **(self.conf or {}),
            **missing_settings(formats, configured),
            **memory_settings(configured, os.environ.get("SPARK_SUBMIT_OPTS", "")),
        }
        if self.packages is None:
            missing = missing_packages(spark, formats, configured, f"{self.jars} {self.driver_class_path}")
            if missing:
                self.packages = ",".join(filter(None, [configured.get("spark.jars.packages"), *missing]))
                self.log.info("Spark %s lacks %s: packages=%s", spark.version, ", ".join(missing), self.packages)
        if self.fast_start and not self._in_cluster_mode(configured):
            self._start_fast(given, spark, configured)
        return {**configured, **{name: str(value) for name, value in self.conf.items()}}

    def _start_fast(self, given: PlanReference, spark: SparkInstallation, configured: Mapping[str, str]) -> None:
        is_small = given.offsets <= _FEW_RECORDS and given.partitions <= _FEW_PARTITIONS
        options = [SMALL_JVM] if is_small else []
        archive = class_archive(spark, os.environ)
        has_own = self.driver_class_path or configured.get("spark.driver.extraClassPath")
        if archive is not None and not has_own and (mapped := archive.options()):
            options.append(mapped)
            self.driver_class_path = archive.class_path
        own = os.environ.get("SPARK_SUBMIT_OPTS", "")  # comes last, so it holds
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, [*options, own]))

    def _kafka(self, given: PlanReference, configured: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        """The Spark setting that names the driver's Kafka client settings, unless it is set."""
        from airflow_kafka_offsets.hooks.spark_kafka import CLIENT_PROPERTIES, handed_over

        if CLIENT_PROPERTIES in configured:
            return nullcontext({})
        return handed_over(given.kafka_config_id, configured, cluster_mode=self._in_cluster_mode(configured))

    def _in_cluster_mode(self, configured: Mapping[str, str]) -> bool:
        mode = self.deploy_mode or self._connection.get("deploy-mode") or configured.get("spark.submit.deployMode")
        return mode == "cluster"

    @property
    def _connection(self) -> Mapping[str, Any]:
        """The extra of the Spark connection.

        :raises InvalidRequest: it does not exist; the provider's operator would submit to YARN.
        """
        try:
            extra: Mapping[str, Any] = BaseHook.get_connection(self.conn_id).extra_dejson
        except AirflowNotFoundException:
            raise InvalidRequest(
                (
                    f"There is no connection {self.conn_id!r}. Create one of type 'spark' whose host is the master "
                    "(local[*], spark://host:7077, yarn, k8s://…), or name another with conn_id.",
                )
            ) from None
        return extra

    # ── which driver a retry may re-attach to: the provider keeps its notes on one under these keys ───────────────────

    @property
    def external_id_key(self) -> str:  # type: ignore[override]  # a class attribute there
        return f"spark_job_id:{self._attempted}"

    @property
    def _K8S_DRIVER_STATUS_KEY(self) -> str:  # type: ignore[override]
        return f"k8s_driver_status:{self._attempted}"

    @property
    def _attempted(self) -> str:
        """One task may submit the batch's job and a merge."""
        return f"{os.path.basename(self.application)}:{self.plan['arguments'][1]}:{self._clears}"


def memory_settings(configured: Mapping[str, str], options: str) -> dict[str, str]:
    """Let a JVM without memory end. In client mode, too, Spark's launcher reads this setting.

    :param options: further options of the JVM.
    """
    default = configured.get(_DEFAULT_OPTIONS, "")
    if "OutOfMemoryError" in f"{default} {configured.get(_JAVA_OPTIONS)} {options}":
        return {}
    return {_DEFAULT_OPTIONS: f"{_EXIT} {default}".strip()}
