"""What the commands are given, from a terminal's words: a cluster's settings, a work store, a pipeline, a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.preview import rehearsed
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.errors import BatchGone, InvalidRequest, NoPosition
from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.plan import number_named, number_of
from airflow_kafka_offsets.request.offset_maps import mapping
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.subscription import default_pipeline_id
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.saved_offsets import text_at
from airflow_kafka_offsets.stores.store import Store

# ── the cluster ───────────────────────────────────────────────────────────────────────────────────────────────────────


def client_config(options: Options) -> dict[str, Any]:
    """librdkafka's settings from a file, an Airflow connection or ``--bootstrap-servers``, which can go with a file.

    :raises InvalidRequest: none is given, or it cannot be read.
    """
    servers, file, connection = (options.get(key) for key in ("bootstrap_servers", "client_config", "kafka_config_id"))
    if connection:
        if servers or file:
            raise InvalidRequest(("Give --kafka-config-id, or --client-config and --bootstrap-servers, not both.",))
        return _from_connection(connection)
    if not servers and not file:
        raise InvalidRequest(
            ("Which cluster? Give --bootstrap-servers host:port, --client-config FILE or --kafka-config-id ID.",)
        )
    return {**(_from_file(file) if file else {}), **({"bootstrap.servers": servers} if servers else {})}


def _from_connection(connection: str) -> dict[str, Any]:
    try:
        from airflow_kafka_offsets.hooks.airflow_versions import connections_in_the_database
        from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
    except ImportError as error:
        raise InvalidRequest((f"--kafka-config-id needs Airflow, which cannot be imported: {error}.",)) from None
    with connections_in_the_database():
        return dict(KafkaOffsetsHook(connection).client_config)


def _from_file(file: str) -> dict[str, Any]:
    text = saved_text("--client-config", file)
    if text.lstrip().startswith("{"):
        return dict(parsed(f"--client-config {file}", lambda: mapping(text, '{"bootstrap.servers": "host:9092"}')))
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    settings = [(number, line.partition("=")) for number, line in lines if line and not line.startswith(("#", "!"))]
    # The line itself may hold a password: it is named by its number only.
    bad = [str(number) for number, (_, equals, _) in settings if not equals]
    if bad:
        raise InvalidRequest((f"--client-config {file}: no key=value on line {', '.join(bad)}.",))
    return {key.strip(): value.strip() for _, (key, _, value) in settings}


@contextmanager
def world_of(options: Options, pipeline: PipelineLog) -> Iterator[World]:
    """The pipeline and its cluster; without ``--execute`` they keep to themselves what is written.

    :raises InvalidRequest: no cluster is given, or it cannot be read which.
    """
    from airflow_kafka_offsets.broker.cluster import KafkaCluster

    with KafkaCluster(client_config(options)) as cluster:
        world = World(pipeline, cluster)
        yield world if options.get("execute") else rehearsed(world)


# ── the work store, and what is in it ─────────────────────────────────────────────────────────────────────────────────


def me(options: Options) -> Actor:
    """Who acts: a person, of an Airflow if the command is one of ``airflow``'s; its page knows their name."""
    return Actor(None, options.get("instance"), options.get("person"))


def work_store(options: Options) -> Store:
    """The work store at ``--work-store``, else the one that Airflow is configured with.

    :raises InvalidRequest: none is given, and there is no Airflow to ask.
    """
    return store_at(options.get("work_store"))


def store_at(uri: str | None) -> Store:
    """The store that a URI names, with Airflow's connections where there is an Airflow."""
    if uri and ("://" not in uri or uri.startswith("file://")):
        return open_store(uri)
    try:
        from airflow_kafka_offsets.hooks.airflow_versions import connections_in_the_database
        from airflow_kafka_offsets.hooks.work_store import configured_work_store, store_of_airflow
    except ImportError as error:
        if uri:
            return open_store(uri)
        raise InvalidRequest(
            (f"--work-store is missing, and Airflow, whose configuration names it, cannot be imported: {error}.",)
        ) from None
    with connections_in_the_database():
        return store_of_airflow(uri) if uri else configured_work_store(None)


def saved_text(flag: str, place: str) -> str:
    """What a file has, or what stands in a query's checkpoint: on this machine or in a store."""
    return parsed(flag, lambda: text_at(flag, place, store_at))


def pipeline_asked_for(options: Options) -> PipelineLog:
    """The pipeline of ``--pipeline-id``, or by its default name that of ``--group-id``, ``--dag-id``, ``--task-id``.

    :raises InvalidRequest: neither is given.
    :raises NoPosition: the work store does not have it.
    """
    opened: PipelineLog | None = options.get("log")
    if opened is not None:
        return opened
    name = options.get("pipeline_id")
    parts = [options.get(part) for part in ("group_id", "dag_id", "task_id")]
    if name is None and all(parts):
        name = default_pipeline_id(*map(str, parts))
    if name is None:
        derived = " (or --group-id, --dag-id and --task-id, which make its default name)" * ("group_id" in options)
        raise InvalidRequest((f"Which pipeline? Give --pipeline-id{derived}. kafka-offsets pipelines lists them.",))
    pipeline = PipelineLog(work_store(options), name)
    if not pipeline.store.list(pipeline.root):
        first = " A first run is planned without --pipeline-id." * ("startup_mode" in options)
        raise NoPosition(
            [f"The work store {pipeline.store.uri} has no pipeline {name!r}"],
            "Correct the name (kafka-offsets pipelines lists those that it has), or name the store that the pipeline "
            f"uses with --work-store.{first}",
        )
    return pipeline


def batch_asked_for(options: Options, pipeline: PipelineLog) -> StoredBatch | None:
    """The batch of ``--batch``, or the one that a run did; ``None`` where that run had nothing to do.

    :raises InvalidRequest: it is not clear which.
    :raises NoPosition: there is no such batch.
    :raises BatchGone: it was cleaned away.
    """
    named, index = options.get("batch"), options.get("map_index")
    of_run = [options.get(name) for name in ("dag_id", "run_id", "task_id")]
    by_run = options.get("run_id") is not None or index is not None
    if (named is not None) == by_run or (by_run and None in of_run):
        raise InvalidRequest(
            ("Which batch? Give --batch alone, or --dag-id, --run-id and --task-id of the run that did it.",)
        )
    if named is not None:
        return find_batch(pipeline, named)
    dag_id, run_id, task_id = map(str, of_run)
    run = RunKey(dag_id, run_id, task_id, -1 if index is None else index)
    taken = pipeline.batch_of_run(run)
    if taken is None:
        raise NoPosition(
            [f"Run {run} has taken no batch of pipeline {pipeline.pipeline_id!r}"],
            "Correct the names: the task is the resolve task, with its task group; a mapped one needs --map-index.",
        )
    found = pipeline.read(taken.folder) if taken.folder else None
    if taken.folder and found is None:
        raise BatchGone(str(run), f"batch {taken.key}", "was cleaned away", taken.output)
    return found


def find_batch(pipeline: PipelineLog, named: str) -> StoredBatch:
    """The batch, or the window, of a number, a key or a name.

    :raises NoPosition: there is none.
    """
    number = number_named(named)
    found = pipeline.batch(number) if number else pipeline.find_window(named)
    key = found.log.plan.batch.key if found else None
    if found is None or (number_of(named) and key != named):
        raise NoPosition(
            [f"Pipeline {pipeline.pipeline_id!r} has no batch and no window {named!r}"],
            "kafka-offsets show --history 10 lists its last batches, and --windows its windows.",
        )
    return found
