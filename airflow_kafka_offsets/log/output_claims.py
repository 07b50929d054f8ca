"""Owners of outputs: ``outputs/<path>/<k>.json``, a claim by a pipeline and a kind of its batches, or its release.

The log of a pipeline, its windows by time and its windows by offsets never share an output: a record could be there
under two keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from airflow_kafka_offsets.errors import OutputTaken, StoreUnavailable
from airflow_kafka_offsets.json_columns import require_version, text_or_none
from airflow_kafka_offsets.stores.objects import create_object, read_object, safe_name
from airflow_kafka_offsets.stores.store import Store

Kind = Literal["log", "windows", "windows by offsets"]
_TRIES = 100
_ENTRY = re.compile(r"([1-9][0-9]{0,17})\.json")


@dataclass(frozen=True, slots=True)
class Owner:
    """:ivar pipeline: ``None``: the output was released."""

    pipeline: str | None
    kind: str | None

    def __str__(self) -> str:
        return f"the {self.kind} of pipeline {self.pipeline!r}" if self.kind != "log" else f"pipeline {self.pipeline!r}"


def claim_output(store: Store, output: str, pipeline: str, kind: Kind) -> None:
    """Make ``output`` the pipeline's own; it stays so until it is released.

    :raises OutputTaken: it is another's.
    """
    me = Owner(pipeline, kind)
    for _ in range(_TRIES):
        number, owner = _newest(store, output)
        if owner == me:
            return
        if owner is not None and owner.pipeline is not None:
            raise OutputTaken(output, str(owner), str(me))
        if _write(store, output, number + 1, me):
            return
    raise _never_first(store, output)


def owner_of(store: Store, output: str) -> Owner | None:
    """The owner of the output; ``None`` if there is none."""
    owner = _newest(store, output)[1]
    return owner if owner is not None and owner.pipeline is not None else None


def release_output(store: Store, output: str) -> None:
    """Give up the claim, whoever has it; not that of somebody who claims the output afterwards."""
    for _ in range(_TRIES):
        number, owner = _newest(store, output)
        if owner is None or owner.pipeline is None or _write(store, output, number + 1, Owner(None, None)):
            return
    raise _never_first(store, output)


def _never_first(store: Store, output: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Cannot claim or release output {output}",
        f"others did so {_TRIES} times in a row, in the work store {store.uri}",
        "See which pipelines name this output, and try again.",
        retriable=True,
    )


def _newest(store: Store, output: str) -> tuple[int, Owner | None]:
    folder = f"outputs/{safe_name(output)}"
    numbers = [int(match[1]) for name in store.list(folder) if (match := _ENTRY.fullmatch(name))]
    if not numbers:
        return 0, None
    return max(numbers), read_object(store, f"{folder}/{max(numbers)}.json", _owner)


def _write(store: Store, output: str, number: int, owner: Owner) -> bool:
    value = {"version": 1, "output": output, "pipeline": owner.pipeline, "kind": owner.kind}
    return create_object(store, f"outputs/{safe_name(output)}/{number}.json", value)


def _owner(data: dict[str, Any]) -> Owner:
    require_version(data, 1, "output")
    return Owner(text_or_none(data["pipeline"]), text_or_none(data["kind"]))
