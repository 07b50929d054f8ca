"""Which pipelines a DAG has, and where they are: by what its resolve tasks have pushed, and by the logs themselves.

An XCom says where to look. Whose a pipeline is, its log says: the newest batch, or the newest window, was planned for a
task of the DAG. So an address that names another DAG's pipeline shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_kafka_offsets.batch.pipeline_status import NextRun
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import InvalidRequest, NoPosition, StoreDamaged, StoreUnavailable
from airflow_kafka_offsets.log.batch_lines import BatchLine, line_of, read_line
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.window_claims import time_claim_of_name
from airflow_kafka_offsets.stores.store import together

Plans = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class NewestFound:
    """What a pipeline's log has last.

    :ivar batch: the newest batch of its log; ``None``: it has none, or windows alone.
    :ivar window: the last window by time, else any.
    :ivar numbers: the lowest and the highest number of a batch.
    """

    batch: BatchLine | None
    window: BatchLine | None
    numbers: tuple[int, int] | None
    window_places: tuple[str, ...]

    @property
    def newest(self) -> BatchLine | None:
        return self.batch or self.window


@dataclass(frozen=True, slots=True)
class PagePipeline:
    """A pipeline, and what its page asks.

    :ivar open_cluster: its Kafka cluster, with the connection of its resolve task; ``None`` where that is not known.
    :ivar next_run: asks Airflow.
    :ivar connection: the id of its Kafka connection, for the command line.
    :ivar found: what its log has last, where that was looked at already.
    :ivar instance: what names this Airflow; ``None``: there is none.
    """

    dag_id: str
    task_id: str
    log: PipelineLog
    open_cluster: Callable[[], AbstractContextManager[Cluster]] | None
    next_run: Callable[[], NextRun]
    connection: str | None = None
    found: NewestFound | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineName:
    """One pipeline of a DAG: ``id`` is what addresses have."""

    id: str
    task_id: str


def plans_of_dag(dag_id: str) -> Plans:
    """What the DAG's tasks have said of their pipelines, the newest first, with the task."""
    from airflow_kafka_offsets.hooks.dag_runs import plans_pushed

    return [
        (task_id, value)
        for task_id, value in plans_pushed(dag_id)
        if isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("pipeline", "work_store"))
    ]


def pipelines_of_dag(dag_id: str, plans: Plans | None = None) -> list[PipelineName]:
    """The pipelines that the DAG's resolve tasks have named, by task and name. No store is asked.

    :param plans: of :func:`plans_of_dag`, where Airflow was asked already.
    """
    named = plans_of_dag(dag_id) if plans is None else plans
    return sorted({PipelineName(one["pipeline"], task) for task, one in named}, key=lambda p: (p.task_id, p.id))


def open_pipeline(dag_id: str, pipeline_id: str, plans: Plans | None = None) -> PagePipeline:
    """The pipeline, if it is the DAG's.

    :param plans: as of :func:`pipelines_of_dag`.
    :raises NoPosition: the DAG has no such pipeline, or the log says that it is another DAG's.
    :raises InvalidRequest: the work store cannot be used as it is named.
    """
    from airflow_kafka_offsets.hooks.airflow_versions import connections_in_the_database
    from airflow_kafka_offsets.hooks.dag_runs import next_run_of
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
    from airflow_kafka_offsets.hooks.run_context import this_airflow
    from airflow_kafka_offsets.hooks.work_store import store_of_airflow

    plans = plans_of_dag(dag_id) if plans is None else plans
    named = next(((task, one) for task, one in plans if one["pipeline"] == pipeline_id), None)
    if named is None:
        raise _not_of_dag(dag_id, pipeline_id)
    task_id, about = named
    connection = about.get("kafka_config_id")
    with connections_in_the_database():
        log = PipelineLog(store_of_airflow(about["work_store"]), pipeline_id)
        hook = KafkaOffsetsHook(connection) if connection else None
        with suppress(InvalidRequest):  # who asks Kafka says so
            _ = hook and hook.client_config
    open_cluster, found = hook.open_cluster if hook else None, None
    with suppress(StoreUnavailable, StoreDamaged):  # the page says so
        found = look_at_newest(log)
        require_dag(dag_id, pipeline_id, found)
    return PagePipeline(
        dag_id, task_id, log, open_cluster, partial(next_run_of, dag_id), connection, found, this_airflow()
    )


def look_at_newest(log: PipelineLog) -> NewestFound:
    """What the log has last: some listings, and an entry or two.

    :raises StoreUnavailable: the store does not answer.
    :raises StoreDamaged: the newest batch cannot be read.
    """
    numbers, places = together(log.store, log.first_and_last, log.window_places)
    batch, window = None, None
    if numbers:
        batch = read_line(log.store, log.folder_of(numbers[1]))
        if batch is None:  # it was cleaned away, or is just being begun
            newest = log.newest()
            batch = line_of(newest) if newest else None
    if places:
        months = [place for place in places if place != "offsets"]
        names = log.windows_in((months or places)[-1])
        by_time = [name for name in names if time_claim_of_name(name)] or names
        window = read_line(log.store, log.folder_of_window(by_time[-1])) if by_time else None
    return NewestFound(batch, window, numbers, tuple(places))


def found_in(pipeline: PagePipeline) -> NewestFound:
    """What its log has last. Where that could not be told when it was opened, whose it is, is looked at now.

    :raises NoPosition: it is another DAG's; and as :func:`look_at_newest`.
    """
    if pipeline.found is not None:
        return pipeline.found
    found = look_at_newest(pipeline.log)
    require_dag(pipeline.dag_id, pipeline.log.pipeline_id, found)
    return found


def require_dag(dag_id: str, pipeline_id: str, found: NewestFound) -> None:
    """:raises NoPosition: neither the newest batch nor the newest window was planned for a task of the DAG."""
    tasks = [one.summary.task for one in (found.batch, found.window) if one is not None]
    if tasks and all(task is None or task[0] != dag_id for task in tasks):
        raise _not_of_dag(dag_id, pipeline_id)


def _not_of_dag(dag_id: str, pipeline_id: str) -> NoPosition:
    return NoPosition(
        [f"DAG {dag_id!r} has no pipeline {pipeline_id!r}"],
        "Correct the address. A pipeline is the DAG's whose resolve task planned its newest batch, once it has run.",
    )
