"""The Spark task of a batch: what it submits, and which driver it may re-attach to.

In a cluster mode ``SparkSubmitOperator`` keeps notes in Airflow's task state store: the driver's id, and for Kubernetes
that the pod has succeeded. A clear leaves them as they are. So the provider's operator would find a driver of another
plan, or of before the clear, and succeed without submitting anything. It gets a store instead whose notes belong to the
last driver (:class:`LastDriver`). What must stay true:

- a retry finds the driver that still runs this plan, or that has finished meanwhile: the worker died, not the driver;
- another plan is another job; and it does not start while a driver of the plan before may still write;
- a clear reads and writes again. That is what the person who clears wants, and what the commit's refusals ask them to
  do: a driver that has finished without a valid report would else be found finished for ever.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.errors import FormerDriverRuns, InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.hooks.airflow_versions import AirflowFailException, AirflowNotFoundException, BaseHook
from airflow_kafka_offsets.hooks.airflow_versions import conf as airflow_conf
from airflow_kafka_offsets.hooks.driver_archive import driver_archive
from airflow_kafka_offsets.hooks.page_link import PipelinePageLink
from airflow_kafka_offsets.hooks.spark_installation import (
    SparkInstallation,
    find_spark,
    packages_for,
    settings_for,
    settings_of,
    variables_for,
)
from airflow_kafka_offsets.hooks.spark_kafka import handed_over, where_on_the_cluster
from airflow_kafka_offsets.hooks.tells_lineage import TellsLineage, servers_of
from airflow_kafka_offsets.hooks.work_store import store_of_driver
from airflow_kafka_offsets.plan.job_arguments import JobArguments, parse_job_arguments
from airflow_kafka_offsets.plan.splits import FEW_RECORDS
from airflow_kafka_offsets.plan.window_claims import time_claim_of_name
from airflow_kafka_offsets.spark import jobs
from airflow_kafka_offsets.spark.client_properties import SETTING
from airflow_kafka_offsets.spark.sinks.sink_arguments import formats_of_arguments
from airflow_kafka_offsets.stores.store import Store
from airflow_kafka_offsets.task_docs import SPARK_DOC

if TYPE_CHECKING:
    from airflow_kafka_offsets.log.entries import Planned
    from airflow_kafka_offsets.log.task_lineage import TaskLineage
    from airflow_kafka_offsets.log.verify_reads import Attempt

PACKAGED_JOB = Path(jobs.__file__).with_name("write_batch.py")
_LAST = "spark_last_driver"
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
_DEFAULTS = {"doc_md": SPARK_DOC, "map_index_template": "{{ task.batch_and_split }}"}


class SparkSubmitPlanOperator(TellsLineage, SparkSubmitOperator):
    """``SparkSubmitOperator`` that re-attaches to a driver of the same plan; after a clear it submits anew.

    ``application_args`` must be one of the lists that ``ResolveStartupOffsetsOperator`` returns. A mapped one names
    its batch and split in Airflow's UI, unless it is given offsets in the place of a batch.

    :param application: the PySpark job; default: the one that is in this package, which writes to the sink of the
        resolve task.
    :param conf: Spark settings, as of ``SparkSubmitOperator``.
    :param conn_id: as of ``SparkSubmitOperator``, and so is ``deploy_mode``.
    :param packages: Maven coordinates. Default: Spark's Kafka source, and what the sink needs, for the Spark whose
        ``spark-submit`` is found here, as far as nothing else configures it. Give a list of your own, or ``""`` where
        the cluster has all of it.
    :param spark_binary: as of ``SparkSubmitOperator``.
    :param kafka: the Kafka credentials of Spark. Default: the Kafka connection of the resolve task, which the driver
        is handed in a file, in client mode. The id of another Kafka connection: that one is handed over, for a
        principal of Spark's own. ``{"file": "/mnt/kafka/client.properties"}`` or ``{"credential": "alias"}``: a file in
        the format of Kafka's own tools, which the driver finds where it runs, in a cluster mode too; see
        :mod:`airflow_kafka_offsets.spark.client_properties`. ``{}``: nothing.
    :param fast_start: in client mode, let the driver's JVM map Spark's classes from an archive in the user's cache
        folder, which takes about half of the start's processor time. Default: ``[kafka_offsets] fast_start``, which is
        true. The second run on a worker makes the archive beside itself.
    :raises AirflowFailException: this worker has no ``spark-submit`` or no Java, or the Kafka connection cannot be
        handed over; nothing was submitted.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "kafka")
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, PipelinePageLink())

    def __init__(
        self,
        *,
        application: str = "",
        conf: dict[str, Any] | None = None,
        conn_id: str = "spark_default",
        deploy_mode: str | None = None,
        packages: str | None = None,
        spark_binary: str | None = None,
        kafka: str | Mapping[str, str] | None = None,
        fast_start: bool | None = None,
        **kwargs: Any,
    ) -> None:
        self.kafka, self.fast_start = kafka, fast_start
        self.conn_id, self.deploy_mode, self.spark_binary = conn_id, deploy_mode, spark_binary
        super().__init__(
            application=application or str(PACKAGED_JOB),
            conf=conf,
            conn_id=conn_id,
            deploy_mode=deploy_mode,
            packages=packages,
            spark_binary=spark_binary,
            **{**_DEFAULTS, **kwargs},
        )

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """As ``BaseOperator.partial``. A mapped task's defaults have to be set here; ``__init__`` does not see them."""
        return super().partial(**{**_DEFAULTS, **kwargs})

    @property
    def batch_and_split(self) -> str:
        """``batch 7, split 0``; empty where the arguments are no batch's, which the task itself refuses."""
        job = self._job_arguments()
        return f"{_batch_of(job.plan_object)}, split {job.split}" if job else ""

    def execute(self, context: Any) -> None:
        with ExitStack() as until_the_end:
            until_the_end.enter_context(_variables_of_this_task())
            try:
                configured = self._complete()
                self.conf = {**(self.conf or {}), **until_the_end.enter_context(self._kafka(configured))}
            except InvalidRequest as error:
                raise AirflowFailException(str(error)) from None
            super().execute(context)

    def _kafka(self, configured: Mapping[str, str]) -> AbstractContextManager[dict[str, str]]:
        """The Spark setting that names the driver's Kafka client settings, unless somebody has set it."""
        if isinstance(self.kafka, Mapping):
            return nullcontext(where_on_the_cluster(self.kafka))
        if self.kafka is not None:
            return handed_over(self.kafka, configured, cluster_mode=self._in_cluster_mode(configured), own=True)
        job = self._job_arguments()
        if job is None or job.kafka_config_id is None or SETTING in configured:
            return nullcontext({})
        return handed_over(job.kafka_config_id, configured, cluster_mode=self._in_cluster_mode(configured))

    def _in_cluster_mode(self, configured: Mapping[str, str]) -> bool:
        mode = self.deploy_mode or BaseHook.get_connection(self.conn_id).extra_dejson.get("deploy-mode")
        return (mode or configured.get("spark.submit.deployMode")) == "cluster"

    def _job_arguments(self) -> JobArguments | None:
        try:
            return parse_job_arguments([str(argument) for argument in self.application_args or ()])
        except InvalidRequest:  # no batch's: a job that is given offsets takes them, and any other one refuses them
            return None

    def _task_lineage(self, *, is_over: bool) -> TaskLineage:
        from airflow_kafka_offsets.log.read_reports import attempts_of
        from airflow_kafka_offsets.log.task_lineage import TaskLineage, of_plan
        from airflow_kafka_offsets.log.verify_reads import fates_of

        job = self._job_arguments()
        if job is None:
            return TaskLineage()
        store, planned = _planned(job)
        if planned is None:
            return TaskLineage()
        attempts: list[Attempt] = []
        if is_over:
            folder = job.plan_object.rpartition("/")[0]
            attempts = attempts_of(store, folder, store.list(folder), job.split)
        report = attempts[0].report if len(attempts) == 1 else None
        fates = fates_of({job.split: attempts}) if report and report.plan_id == job.plan_id else None
        servers = job.bootstrap_servers or servers_of(job.kafka_config_id or "kafka_default")
        return of_plan(planned.plan, servers, split=job.split, fates=fates, writes=True)

    def _complete(self) -> dict[str, str]:
        """Fill in what this worker's Spark needs and nobody has configured. Returns all settings.

        :raises InvalidRequest: no driver could be started here.
        """
        spark = find_spark(self._binary(), os.environ)
        os.environ.update(variables_for(spark, os.environ))
        formats = formats_of_arguments([str(argument) for argument in self.application_args or ()])
        configured = settings_of(spark, self.properties_file, self.conf, os.environ)
        self.conf = {**(self.conf or {}), **settings_for(formats, configured)}
        if self.packages is None:
            missing = packages_for(spark, formats, configured, f"{self.jars} {self.driver_class_path}")
            if missing:
                self.packages = ",".join(filter(None, [configured.get("spark.jars.packages"), *missing]))
                self.log.info(
                    'Spark %s in %s has no %s: packages=%s. (If your cluster has them, give packages="".)',
                    spark.version,
                    spark.home,
                    " and no ".join(coordinate.split(":")[1] for coordinate in missing),
                    self.packages,
                )
        configured = {**configured, **{name: str(value) for name, value in self.conf.items()}}
        if not self._in_cluster_mode(configured):
            options = [_FIRST_COMPILER] if self._is_short() else []
            options += self._archived_classes(spark, configured)
            if options:  # the user's own come last, so theirs hold
                os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*options, os.environ.get("SPARK_SUBMIT_OPTS", "")]).strip()
        return configured

    def _archived_classes(self, spark: SparkInstallation, configured: Mapping[str, str]) -> list[str]:
        """The archive for this worker's Java and Spark; where it is not there, it is made beside this run."""
        wanted = self.fast_start
        if wanted is None:
            wanted = airflow_conf.getboolean("kafka_offsets", "fast_start", fallback=True)
        archive = driver_archive(spark, os.environ, configured, self.driver_class_path) if wanted else None
        if archive is None:
            return []
        if mapped := archive.options():
            self.driver_class_path = archive.class_path
            return [mapped]
        if archive.make_beside_this_run():
            self.log.info("%s is made beside this run. With it, drivers on this worker start faster.", archive.file)
        return []

    def _is_short(self) -> bool:
        """Whether the packaged job reads few records, and is over before Java's second compiler pays.

        How long a job of one's own takes is not known.
        """
        job = self._job_arguments()
        if job is None or self.application != str(PACKAGED_JOB):
            return False
        with suppress(StoreUnavailable):  # the driver says so
            _, planned = _planned(job)
            return planned is not None and sum(p.range.size for p in planned.plan.splits[job.split]) <= FEW_RECORDS
        return False

    def _binary(self) -> str:
        """:raises InvalidRequest: there is no such connection: the provider would submit to YARN."""
        try:
            connection = BaseHook.get_connection(self.conn_id)
        except AirflowNotFoundException:
            raise InvalidRequest(
                (
                    f"There is no connection {self.conn_id!r}: create one of type 'spark' whose host is the master "
                    '(local[*], spark://host:7077, yarn, k8s://…), or name another with spark={"conn_id": …}.',
                )
            ) from None
        return str(self.spark_binary or connection.extra_dejson.get("spark-binary") or "spark-submit")

    def execute_resumable(self, context: Any) -> Any:
        """As the provider's, which finds the driver of this plan only, and none that has finished before a clear."""
        states = context.get("task_state_store")
        if states is None:
            return super().execute_resumable(context)
        job, words = self._job_arguments(), [str(argument) for argument in self.application_args or ()]
        own = sha256(json.dumps(words).encode()).hexdigest()  # of a job that is given offsets in the place of a plan
        last = LastDriver(
            states, f"{job.plan_id}:{job.split}" if job else own, int(context["dag_run"].clear_number or 0)
        )
        with_last: Any = {**context, "task_state_store": last}
        return super().execute_resumable(with_last)

    def submit_job(self, context: Any) -> str | None:
        """Submit a driver, and remember it with its plan and the number of clears so far.

        :raises FormerDriverRuns: a driver of the plan that this one replaces is still running.
        """
        last = context.get("task_state_store")
        running = self._still_running(last, context) if last is not None else None
        if running is not None:
            return running
        driver: str | None = super().submit_job(context)
        if driver and last is not None:
            last.remember(driver)
        return driver

    def _still_running(self, last: LastDriver, context: Any) -> str | None:
        """The driver of this plan whose worker died before its id was stored; ``None`` where nothing runs."""
        if last.submitted is None:
            return None
        driver = str(last.submitted["driver"])
        try:
            status: str = self.get_job_status(driver, context)
        except Exception as error:  # a cluster that has forgotten it; one that does not answer takes no driver either
            self.log.warning("Driver %s was submitted by an earlier try; its state is not known: %s", driver, error)
            return None
        if not self.is_job_active(status):
            return None
        if last.submitted["job"] == last.job:
            return driver
        raise FormerDriverRuns(driver, status)


@contextmanager
def _variables_of_this_task() -> Iterator[None]:
    """One process may run several tasks, as ``DAG.test`` does: the next one must not find this one's variables."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _planned(job: JobArguments) -> tuple[Store, Planned | None]:
    """The store that the driver is handed, as this worker reaches it, and what the job was started for."""
    from airflow_kafka_offsets.log.pipeline_log import read_plan

    store = store_of_driver(job.store_uri)
    return store, read_plan(store, job.plan_object)


def _batch_of(plan_object: str) -> str:
    """In words, the batch whose log has that object: its folder is named after it."""
    *_, name, _entry = plan_object.split("/")
    if name.isdigit():
        return f"batch {int(name)}"
    window = time_claim_of_name(name)
    return str(window) if window is not None else f"window {name}"


class LastDriver:
    """What stands for ``context["task_state_store"]`` while the provider's operator runs: the notes on the last driver.

    It is empty where that one was submitted for another plan, or before a clear.

    :param states: Airflow's own.
    :param job: plan and split of this task.
    :param clears: how often tasks of this run have been cleared; a retry does not count.
    """

    def __init__(self, states: Any, job: str, clears: int) -> None:
        self.job = job
        self._states, self._clears = states, clears

    @property
    def submitted(self) -> dict[str, Any] | None:
        """``driver`` (its id), ``job`` and ``clears`` of the last one, for whichever plan."""
        found: dict[str, Any] | None = self._states.get(_LAST)
        return found

    def remember(self, driver: str) -> None:
        """A driver was submitted. What was noted of the one before is not found any more."""
        self._states.set(_LAST, {"driver": driver, "job": self.job, "clears": self._clears})

    def get(self, key: str, default: Any = None) -> Any:
        last = self.submitted
        if last is None or (last["job"], last["clears"]) != (self.job, self._clears):
            return default
        return self._states.get(f"{key}:{last['driver']}") or default

    def set(self, key: str, value: Any, **options: Any) -> None:
        last = self.submitted
        if last is not None:
            self._states.set(f"{key}:{last['driver']}", value, **options)
