"""What the commands are given: a cluster's settings, a work store, a stored plan, from a terminal's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.stores.objects import WorkStore, open_work_store
from airflow_kafka_offsets.stores.runs import find_plan, find_plan_by_id

Options = Mapping[str, Any]
"""By the options' names. Under ``airflow`` there is ``is_alive`` too: whether a run is queued or running."""


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
    return {**(_from_file(Path(file)) if file else {}), **({"bootstrap.servers": servers} if servers else {})}


def _from_connection(connection: str) -> dict[str, Any]:
    try:
        from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
    except ImportError as error:
        raise InvalidRequest((f"--kafka-config-id needs Airflow, which cannot be imported: {error}.",)) from None
    return dict(KafkaOffsetsHook(connection).client_config)


def _from_file(file: Path) -> dict[str, Any]:
    text = text_of(file, option="--client-config")
    if text.lstrip().startswith("{"):
        try:
            settings: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidRequest((f"--client-config {file} is not valid JSON: {error}.",)) from None
        return settings
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
    # The line itself may hold a password: it is named by its number only.
    bad = [str(number) for number, line in enumerate(lines, 1) if line and line[0] not in "#!" and "=" not in line]
    if bad:
        raise InvalidRequest((f"--client-config {file}: no key=value on line {', '.join(bad)}.",))
    return {key.strip(): value.strip() for key, _, value in pairs}


def text_of(file: Path, *, option: str) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest((f"{option} {file} cannot be read: {error}.",)) from None


def text_or_file(options: Options, name: str) -> str | None:
    """An option whose value may be ``@FILE``."""
    value = options.get(name)
    if value is None or not str(value).startswith("@"):
        return value
    return text_of(Path(value[1:]), option="--" + name.replace("_", "-"))


def required(options: Options, *names: str) -> None:
    """:raises InvalidRequest: naming all that are missing."""
    missing = ["--" + name.replace("_", "-") for name in names if options.get(name) is None]
    if missing:
        raise InvalidRequest(tuple(f"{flag} is missing." for flag in missing))


def work_store(options: Options) -> WorkStore:
    """The work store at ``--work-store``, else the one that Airflow is configured with.

    :raises InvalidRequest: none is given, and there is no Airflow to ask.
    """
    uri = options.get("work_store")
    if uri and ("://" not in uri or uri.startswith("file://")):
        return open_work_store(uri)
    try:
        from airflow_kafka_offsets.hooks.kafka_offsets import configured_work_store
    except ImportError as error:
        if uri:
            return open_work_store(uri)
        raise InvalidRequest(
            (f"--work-store is missing, and Airflow, whose configuration names it, cannot be imported: {error}.",)
        ) from None
    return configured_work_store(uri)


def stored_plan(options: Options, store: WorkStore) -> OffsetPlan:
    """The plan of ``--dag-id --run-id --task-id [--map-index]``, or the one with ``--plan-id``.

    :raises InvalidRequest: neither way, or both, or there is no such plan.
    """
    plan_id = options.get("plan_id")
    of_run = [name for name in ("dag_id", "run_id", "task_id") if options.get(name) is not None]
    if (plan_id is not None) == bool(of_run) or len(of_run) in (1, 2):
        raise InvalidRequest(("Which plan? Give --dag-id, --run-id and --task-id of its run, or --plan-id alone.",))
    if plan_id is not None:
        what, found = f"plan {plan_id}", find_plan_by_id(store, plan_id)
    else:
        index = options.get("map_index")
        run = RunKey(*(options[name] for name in of_run), *(() if index is None else (index,)))
        kept = find_plan(store, run)
        what, found = f"plan of run {run}", kept.plan if kept else None
    if found is None:
        raise InvalidRequest(
            (
                f"There is no {what} in the work store {store.uri}. Correct the names (the task is the resolve task, "
                "with its task group), or name the store that the run used with --work-store.",
            )
        )
    return found
