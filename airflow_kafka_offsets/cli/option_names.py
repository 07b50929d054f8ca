"""What a message names → what the user typed: ``splits`` → ``--splits``, "the Kafka connection" → ``--client-config``.

Messages ask for the name when they are made (:func:`airflow_kafka_offsets.errors.named`). What the command has no
option for is the DAG's, and has its name there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_offsets.cli.commands import Command
from airflow_kafka_offsets.errors import ADDRESS, CLIENT_SETTINGS, CONNECTION


def as_typed(command: Command, options: Mapping[str, Any]) -> Callable[[str], str]:
    """The names of ``command``'s options.

    :param options: what was given; it says where the settings of the cluster come from.
    """
    flags = {option.name: option.flag for option in command.options}
    no = {name.removeprefix("no_"): "--no-" + name.removeprefix("no_").replace("_", "-") for name in flags}
    typed = flags | {f"{name}=False": flag for name, flag in no.items()} | _cluster(flags, options)
    return lambda name: typed.get(name, name)


def _cluster(flags: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    given = [name for name in ("kafka_config_id", "client_config", "bootstrap_servers") if options.get(name)]
    if not given or given[0] not in flags:
        return {}
    address = flags[given[0]]
    if given[0] == "bootstrap_servers":  # which has no room for other settings
        settings = f"{address} (TLS and credentials go into a file: --client-config)"
        return {ADDRESS: address, CONNECTION: "--client-config", CLIENT_SETTINGS: settings}
    in_settings = CLIENT_SETTINGS.replace(CONNECTION, address)
    return {ADDRESS: address, CONNECTION: address, CLIENT_SETTINGS: in_settings}
