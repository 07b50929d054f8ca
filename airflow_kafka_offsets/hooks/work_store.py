"""The work store that Airflow is configured with, opened with Airflow's connections."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import InvalidRequest, named
from airflow_kafka_offsets.hooks.airflow_versions import AirflowNotFoundException, BaseHook, conf, has_fs
from airflow_kafka_offsets.stores.location import HDFS, Location
from airflow_kafka_offsets.stores.open import machines_file_system, missing_package, open_store
from airflow_kafka_offsets.stores.store import Store

if TYPE_CHECKING:
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

_LOCAL_EXECUTORS = {"LocalExecutor", "SequentialExecutor"}
# Set in what they start, by Airflow's executor for Kubernetes, and by those of Amazon's provider for ECS and Batch.
_MARKS = ("AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER")


def configured_work_store(uri: str | None) -> Store:
    """The work store at ``uri``, else at ``[kafka_offsets] work_store``, else in ``AIRFLOW_HOME`` (one machine).

    :raises InvalidRequest: a folder of one machine, where tasks may run on several.
    """
    chosen = uri or conf.get("kafka_offsets", "work_store", fallback="")
    if "://" not in chosen and (elsewhere := runs_elsewhere()):
        raise InvalidRequest((_of_one_machine(chosen, elsewhere),))
    return store_of_airflow(chosen or _default_store())


def configured_log(work_store: str | None, pipeline_id: str) -> PipelineLog:
    """The log of a pipeline in such a work store. It is imported where a task runs: a DAG's file is parsed often."""
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

    return PipelineLog(configured_work_store(work_store), pipeline_id)


def store_of_airflow(uri: str) -> Store:
    """The store at ``uri``, with the connection that it names."""
    return open_store(uri, _airflows_file_system)


def store_of_driver(driver_uri: str) -> Store:
    """The store that a Spark driver is given by ``driver_uri``, which names no connection, as Airflow opens it."""
    with suppress(InvalidRequest):
        own = configured_work_store(None)
        if own.driver_uri == driver_uri:
            return own
    return store_of_airflow(driver_uri)


def _of_one_machine(chosen: str, elsewhere: str) -> str:
    """Refused, because two workers with a folder each would read some records twice and skip others, in green runs."""
    what = f"work_store {chosen} is a folder" if chosen else "work_store is not set"
    default = "" if chosen else ": the default, a folder in AIRFLOW_HOME, is one machine's"
    return (
        f"{what}, and {elsewhere} may run tasks on several machines{default}. Set [kafka_offsets] work_store "
        "(AIRFLOW__KAFKA_OFFSETS__WORK_STORE) to a place that all of them and the Spark drivers reach, such as "
        "s3://bucket/folder. For a folder on a disk that all of them share, write file:///folder."
    )


def _default_store() -> str:
    home = os.path.abspath(os.path.expanduser(os.environ.get("AIRFLOW_HOME", "~/airflow")))
    return f"file://{home}/kafka_offsets"


def _airflows_file_system(location: Location) -> Any:
    """fsspec's file system as Airflow's providers open it, with the connection in the URI; HDFS's is our own."""
    if location.connection is None and (location.account is not None or location.kind in HDFS):
        return machines_file_system(location)
    if location.kind not in HDFS and not has_fs(location.kind):
        raise missing_package(
            location, ImportError(f"no provider of Airflow's has file systems for {location.kind}://")
        )
    try:
        if location.connection is not None:
            # Looked up for all: Amazon's provider goes on without one that is not there.
            found = BaseHook.get_connection(location.connection)
            if location.kind in HDFS:
                from airflow_kafka_offsets.stores.web_hdfs import web_hdfs

                return web_hdfs(location, found.host, found.port, found.login)
        # The bucket alone: Airflow's path takes what stands before any @ for a connection.
        return ObjectStoragePath(f"{location.kind}://{location.bucket}", conn_id=location.connection).fs
    except AirflowNotFoundException:
        raise InvalidRequest(
            (f"{named('work_store')} {location.uri} names the connection {location.connection!r}, and there is none.",)
        ) from None


def runs_elsewhere() -> str:
    """What may run tasks on another machine, for a message; empty if all runs on this one.

    ``[core] executor`` is the scheduler's setting. A worker does without it, and reads Airflow's default then,
    ``LocalExecutor``; pod templates for Kubernetes say so too. So a process that is itself a worker's counts, whatever
    is configured. A task's own ``executor=`` is always one of those that are configured.
    """
    configured = conf.get("core", "executor", fallback="LocalExecutor")
    names = [name.strip() for name in re.split("[,;]", configured) if name.strip()]
    # ``team=Executor``, ``team:Executor``, an alias (``alias:path.Executor``) or a path
    not_local = [name for name in names if re.split("[=:.]", name)[-1] not in _LOCAL_EXECUTORS]
    if not_local:
        return ", ".join(not_local)
    if sys.argv[2:3] == ["worker"]:  # ``airflow celery worker``; its tasks are forks of it
        return f"`airflow {sys.argv[1]} worker`"
    return next((mark for mark in _MARKS if os.environ.get(mark)), "")
