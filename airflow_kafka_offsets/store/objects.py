# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Objects of the checkpoint location: compact JSON whose last member is the digest of the rest.

``{"version":1,…,"sha256":"<hex>"}``: the digest is of all bytes before ``,"sha256"``. So a torn or altered object is
recognized and named instead of being acted upon.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.store.protocol import Store

_DIGEST = re.compile(rb',"sha256":"([0-9a-f]{64})"}\Z')
_LONGEST_NAME = 200  # bytes; most file systems end at 255


def encode(value: Mapping[str, Any]) -> bytes:
    """Return the object's bytes. ``value`` has at least one member and none called ``sha256``."""
    if not value or "sha256" in value:
        raise ValueError(f"not the members of an object: {sorted(value)}")
    body = json.dumps(value, separators=(",", ":"), allow_nan=False)[:-1].encode()
    return body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()


def decode(data: bytes) -> dict[str, Any]:
    """Return the members of the object, without its digest.

    :raises ValueError: the object is torn or was altered.
    """
    found = _DIGEST.search(data)
    if found is None or hashlib.sha256(data[: found.start()]).hexdigest() != found[1].decode():
        raise ValueError("its digest is missing or wrong: the object is torn or was altered")
    value: dict[str, Any] = read_json(data)
    del value["sha256"]
    return value


def create_object(store: Store, name: str, value: Mapping[str, Any]) -> bool:
    """Write ``value`` if the name is free; ``False`` if another object has it."""
    return store.create(name, encode(value))


def read_object(store: Store, name: str) -> dict[str, Any] | None:
    """Return the members of an object, ``None`` if there is none.

    :raises StoreDamaged: it is torn or was altered.
    """
    data = store.get(name)
    if data is None:
        return None
    try:
        return decode(data)
    except ValueError as error:
        raise StoreDamaged(
            f"Cannot use object {name} of the checkpoint location {store.uri}",
            str(error),
            "Restore it from a copy, and see who else writes there.",
        ) from error


def safe_name(text: str) -> str:
    """Return ``text`` as one part of a name that file systems, object stores and Hadoop accept.

    Different texts give different names. A long one is cut and ends with ``%2D`` and its digest: ``%2D`` occurs in no
    other name, because ``-`` is never encoded.
    """
    name = quote(text, safe="+=@,", errors="surrogatepass")
    if set(text) <= {"."}:
        name = name.replace(".", "%2E")
    if len(name) <= _LONGEST_NAME:
        return name or "%2D"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{name[:150]}%2D{digest[:32]}"
