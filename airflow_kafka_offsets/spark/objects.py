# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Objects of the checkpoint location: JSON whose last member ``sha256`` digests all bytes before it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.spark.errors import StoreUnavailable
from airflow_kafka_offsets.spark.store import Store

_DIGEST = re.compile(rb',"sha256":"([0-9a-f]{64})"}\Z')
_VISIBLE = "Every Spark driver must reach the checkpoint location that the resolve task uses"


def encode(value: Mapping[str, Any]) -> bytes:
    """Compact JSON: ``{…,"sha256":"…"}``."""
    body = json.dumps(value, separators=(",", ":")).encode()[:-1]
    return body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()


def read_object(store: Store, name: str, digest: str | None = None) -> dict[str, Any]:
    """The object of that name.

    :param digest: SHA-256 of all its bytes, if its name says so.
    :raises StoreUnavailable: it is missing, damaged, or of a version that this release does not know.
    """
    what, data = f"Cannot read {name} in the checkpoint location", store.get(name)
    if data is None:
        raise StoreUnavailable(what, "It is not there", _VISIBLE)
    member = _DIGEST.search(data)
    is_whole = member and hashlib.sha256(data[: member.start()]).hexdigest().encode() == member[1]
    if not is_whole or digest not in (None, hashlib.sha256(data).hexdigest()):
        raise StoreUnavailable(what, "Its digest is missing or wrong: it was cut off or altered", "Restore the object")
    value: dict[str, Any] = json.loads(data)
    if value.get("version") != 1:
        cause = f"It has version {value.get('version')!r}; this release knows version 1"
        raise StoreUnavailable(what, cause, "Install the release of airflow-kafka-offsets that Airflow has")
    return value
