"""Objects: compact JSON whose last member digests the rest, so that a torn or altered one is found and named."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.stores.store import DRAFT, Store, refuse_too_large, within_size

T = TypeVar("T")
_DIGEST = re.compile(rb',"sha256":"([0-9a-f]{64})"}\Z')
_LONGEST_NAME = 200  # bytes; most file systems end at 255


def encode(value: Mapping[str, Any]) -> bytes:
    """Compact JSON whose last member, ``sha256``, digests everything before it."""
    body = json.dumps(value, separators=(",", ":"))[:-1].encode()
    return body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()


def decode(data: bytes) -> dict[str, Any]:
    """The value.

    :raises ValueError: the digest is missing or wrong: the object is torn, or was altered.
    """
    require_whole(data)
    value: dict[str, Any] = read_json(data)
    del value["sha256"]
    return value


def decode_up_to(data: bytes, member: str) -> dict[str, Any]:
    """The members of the object before its member ``member``, and perhaps all of them; the digest is of all.

    No text in JSON has a quote that is not escaped. So the first place that looks like the member is one: of the object
    itself if what is before it makes a whole object, else of one inside.

    :raises ValueError: as :func:`decode`.
    """
    require_whole(data)
    before, found, _ = data.partition(b',"%s":' % member.encode())
    with suppress(ValueError):
        value: dict[str, Any] = read_json(before + b"}" if found else data)
        return value
    return decode(data)


def require_whole(data: bytes) -> None:
    """:raises ValueError: the digest is missing or wrong: the object is torn, or was altered."""
    found = _DIGEST.search(data)
    if not found or hashlib.sha256(data[: found.start()]).hexdigest() != found[1].decode():
        raise ValueError("its digest is missing or wrong: it is torn, or was altered")


def create_object(store: Store, name: str, value: Mapping[str, Any]) -> bool:
    """Write ``value`` if nobody has written ``name``; ``False`` if somebody has.

    :raises StoreUnavailable: it is larger than what is read again; nothing was written.
    """
    data = encode(value)
    refuse_too_large(data, store.uri, name)
    return store.create(name, data)


def read_object(store: Store, name: str, parse: Callable[[dict[str, Any]], T], up_to: str | None = None) -> T | None:
    """The object as ``parse`` understands it; ``None`` where there is none.

    :param up_to: the member that ``parse`` does without, and all behind it.
    :raises StoreDamaged: it is torn, altered, or not what ``parse`` knows; the object is named.
    """
    data = store.get(name)
    if data is None:
        return None
    try:
        within_size(data, store.uri, name)
        return parse(decode(data) if up_to is None else decode_up_to(data, up_to))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(
            f"Cannot use object {name} of the work store {store.uri}",
            str(error),
            "Restore it from a copy. If another version of airflow-kafka-offsets wrote it, use that version here and "
            "where the Spark driver runs.",
        ) from error


def safe_name(text: str) -> str:
    """``text`` as one part of a name that any file system, object store and Hadoop take.

    Different texts give different names; a very long one is cut, and its digest makes it differ, after a ``%2D``, which
    nothing else is encoded as.
    """
    name = quote(text, safe="+=@,", errors="surrogatepass")
    if set(text) <= {"."}:
        name = name.replace(".", "%2E")
    elif name.endswith(DRAFT):
        name = f"{name.removesuffix(DRAFT)}%2E{DRAFT[1:]}"
    if len(name) <= _LONGEST_NAME:
        return name or "%2D"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{name[:150]}%2D{digest[:32]}"
