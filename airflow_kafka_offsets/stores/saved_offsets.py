"""The text that stands where a person points to: a file, or what a query's checkpoint or a Hudi table has as position.

The place is any that a work store may be. A folder with ``.hoodie`` is a Hudi table (``stores/hudi_commits.py``). Any
other one is the checkpoint of a Structured Streaming query: ``offsets/12`` is
written before batch 12 is read, and ``commits/12`` after its sink has succeeded. Between the two, nobody can tell from
here whether the batch's records are in the query's output. So such a folder is refused, and both answers are named:
each of the two files is a place, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_kafka_offsets.errors import StoreUnavailable, names
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.stores.hudi_commits import FOLDER, checkpoint_of_table
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.store import LARGEST_OBJECT, Store

OpenStore = Callable[[str], Store]
_SHOWN = 10  # partitions of a batch that may have thousands


def text_at(parameter: str, place: str, open_store: OpenStore) -> str:
    """
    :param parameter: whose value is ``@`` and the place, as whoever reads a message has written it.
    :param open_store: opens the store that a URI names.
    :raises ValueError: there is no such place, or a batch of the query has begun and is not committed; a sentence that
        can follow ``parameter``.
    :raises InvalidRequest: no store is known for it.
    :raises StoreUnavailable: it cannot be read.
    """
    try:
        with names({"work_store": parameter}):
            data = _data_at(place, open_store)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"Cannot read {place}, which {parameter} names",
            error.reason,
            "Check the name, and that it can be read from here. Once a batch is committed, its position counts: then "
            "the parameter may go.",
            retriable=error.retriable,
        ) from None
    if len(data) > LARGEST_OBJECT:
        raise ValueError(f"is {place!r}, which has more than {LARGEST_OBJECT} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"is {place!r}, which is no text") from None


def _data_at(place: str, open_store: OpenStore) -> bytes:
    location = location_of(place)
    if location.kind == "file" and not Path(location.root).is_dir():
        return _file(place, Path(location.root))
    store = open_store(place)
    found = store.list("")
    if f"{FOLDER}/" in found:
        return checkpoint_of_table(place, store).encode()
    if {"offsets/", "commits/", "sources/"} & set(found):
        return _of_query(place.rstrip("/"), store)
    folder, _, name = place.rpartition("/")
    is_folder = found or location.kind == "file" or "/" not in location.root
    data = None if is_folder else open_store(folder).get(name)
    if data is None:
        raise ValueError(f"is {place!r}: no file is there, no query's checkpoint (offsets/, commits/), no Hudi table")
    return data


def _file(place: str, file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_OBJECT + 1)
    except OSError as error:
        raise ValueError(f"is {place!r}, which cannot be read here: {error}") from None


def _of_query(place: str, store: Store) -> bytes:
    """The offsets after the last batch, if that is committed.

    The commits are listed first: a query that goes on meanwhile has begun a batch that they lack, and is refused.

    :raises ValueError: it is not; there is none; or its offsets are missing.
    """
    done, begun = (max(_numbers(store, folder), default=None) for folder in ("commits", "offsets"))
    if done is not None and (begun is None or begun <= done):
        return _need(place, store, f"offsets/{done}")
    before = [f"offsets/{done}"] if done is not None else [f"sources/{n}0" for n in store.list("sources")]
    wanted = " and ".join(f"{place}/{name}" for name in before)
    if begun is None:
        raise ValueError(f"is {place!r}, the checkpoint of a query that has begun no batch; its start is in {wanted}")
    after = f"offsets/{begun}"
    raise ValueError(
        f"is {place!r}, the checkpoint of a query whose batch {begun} has begun and is not committed: its records may "
        f"be in the query's output or not ({_ranges(place, store, before, after)}). Let the query end it: start it "
        f"once more with the trigger availableNow. Or look into the output: if it has none of them, give {wanted}; "
        f"if it has them all, give {place}/{after}"
    )


def _numbers(store: Store, folder: str) -> list[int]:
    return [int(name) for name in store.list(folder) if name.isdecimal()]


def _need(place: str, store: Store, name: str) -> bytes:
    data = store.get(name)
    if data is None:
        raise ValueError(f"is {place!r}, a checkpoint that lacks {name}")
    return data


def _ranges(place: str, store: Store, before: list[str], after: str) -> str:
    """What the batch reads, partition by partition; what is new in it starts where its log does."""
    starts: dict[TopicPartition, int] = {}
    for name in before:
        starts |= parse_partition_offsets(_need(place, store, name).decode())
    ends = parse_partition_offsets(_need(place, store, after).decode())
    read = [f"{tp}: {starts.get(tp, 'its start')} to {ends[tp]}" for tp in sorted(ends) if starts.get(tp) != ends[tp]]
    return first_few(read, _SHOWN)
