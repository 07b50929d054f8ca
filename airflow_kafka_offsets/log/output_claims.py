"""Owners of outputs: ``outputs/<path>/<k>.json``, a claim by a pipeline and a kind of its batches, or its release.

The log of a pipeline, its windows by time and its windows by offsets never share an output: a record could be there
under two keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from airflow_kafka_offsets.errors import OutputTaken, StoreUnavailable
from airflow_kafka_offsets.json_columns import as_json, read_as, reading, require_version
from airflow_kafka_offsets.stores.objects import create_object, read_object, safe_name
from airflow_kafka_offsets.stores.store import Store

Kind = Literal["log", "windows", "windows by offsets"]
_TRIES = 100
_ENTRY = re.compile(r"([1-9][0-9]{0,17})\.json")


@dataclass(frozen=True, slots=True)
class Owner:
    pipeline: str
    kind: Kind

    def __str__(self) -> str:
        return f"the {self.kind} of pipeline {self.pipeline!r}" if self.kind != "log" else f"pipeline {self.pipeline!r}"


def claim_output(store: Store, output: str, pipeline: str, kind: Kind) -> None:
    """Make ``output`` the pipeline's own; it stays so until it is released.

    :raises OutputTaken: it is another's.
    """
    _hand_over(store, output, Owner(pipeline, kind))


def release_output(store: Store, output: str) -> None:
    """Give up the claim, whoever has it; not that of somebody who claims the output afterwards."""
    _hand_over(store, output, None)


def owner_of(store: Store, output: str) -> Owner | None:
    """The owner of the output; ``None`` if there is none."""
    return _newest(store, output)[1]


def _hand_over(store: Store, output: str, to: Owner | None) -> None:
    folder = _folder(output)
    value = {"version": 1, "output": output, "owner": as_json(to)}
    for _ in range(_TRIES):
        number, owner = _newest(store, output)
        if owner == to:
            return
        if owner is not None and to is not None:
            raise OutputTaken(output, str(owner), str(to))
        if create_object(store, f"{folder}/{number + 1}.json", value):
            return
    raise StoreUnavailable(
        f"Cannot claim or release output {output}",
        f"others did so {_TRIES} times in a row, in the work store {store.uri}",
        "See which pipelines name this output, and try again.",
        retriable=True,
    )


def _newest(store: Store, output: str) -> tuple[int, Owner | None]:
    """The number of the last entry, and the owner by it."""
    folder = _folder(output)
    last = max((int(match[1]) for name in store.list(folder) if (match := _ENTRY.fullmatch(name))), default=0)
    return last, read_object(store, f"{folder}/{last}.json", _owner) if last else None


def _folder(output: str) -> str:
    return f"outputs/{safe_name(output)}"


def _owner(data: dict[str, Any]) -> Owner | None:
    """``None``: the output was released."""
    with reading("a claim of an output"):
        require_version(data, 1, "output")
        found: Owner | None = read_as(Owner | None, data["owner"])
    return found
