"""Where a Hudi Streamer stands: the checkpoint in the newest commit of its table that has one.

A commit of Hudi is whole or absent: what has begun and is not complete (``.requested``, ``.inflight``) is rolled back
by the next run, and none of its rows is in the table. A complete one that is empty was cut off: its rows are in the
table, and it does not say up to where. Compaction, clustering and other writers commit without a checkpoint. Up to
table version 6 (Hudi 0.x) commits are JSON in ``.hoodie``; from version 8 on (Hudi 1.x) they are Avro in
``.hoodie/timeline``, and their names have a second time, of the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.stores.avro_file import MAGIC, first_record
from airflow_kafka_offsets.stores.store import LARGEST_OBJECT, Store

FOLDER = ".hoodie"
_COMPLETE = re.compile(r"[0-9]{14,17}(?:_[0-9]{14,17})?\.(?:commit|deltacommit|replacecommit)")
_KEYS = ("streamer.checkpoint.key.v2", "deltastreamer.checkpoint.key")


def checkpoint_of_table(place: str, store: Store) -> str:
    """``orders,0:42,1:17``: the next records to read.

    :param store: of the table's own folder.
    :raises ValueError: no commit has one, or a commit cannot be read; a sentence that can follow the parameter's name.
    """
    for name in _newest_first(store):
        found = _extra_metadata(place, store, name)
        for key in _KEYS:
            if isinstance(found.get(key), str):
                return str(found[key])
    raise ValueError(
        f"is {place!r}, a Hudi table of which no active commit has the checkpoint of a Hudi Streamer ({_KEYS[1]}). If "
        "an archived one has it, hudi-cli shows it (commits show_archived): give its text, orders,0:42,1:17"
    )


def _newest_first(store: Store) -> Iterator[str]:
    names = [f"{folder}/{name}" for folder in (FOLDER, f"{FOLDER}/timeline") for name in store.list(folder)]
    complete = [name for name in names if _COMPLETE.fullmatch(name.rpartition("/")[2])]
    return iter(sorted(complete, key=lambda name: name.rpartition("/")[2], reverse=True))


def _extra_metadata(place: str, store: Store, name: str) -> Any:
    data = store.get(name) or b""
    try:
        if len(data) > LARGEST_OBJECT:
            raise ValueError(f"more than {LARGEST_OBJECT} bytes")
        found = first_record(data) if data.startswith(MAGIC) else read_json(data.decode())
        return dict(found.get("extraMetadata") or {})
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"is {place!r}, a Hudi table whose commit {name} cannot be read here ({error}). hudi-cli shows its extra "
            f"metadata (commit showfiles): give the text of {_KEYS[1]}, orders,0:42,1:17"
        ) from None
