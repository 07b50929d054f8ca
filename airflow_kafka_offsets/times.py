# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Times as people write them ↔ milliseconds since the epoch, UTC, which is the unit of Kafka's record timestamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from airflow_kafka_offsets.errors import shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 2**63 - 1
_SECONDS_BELOW_MS = 10**11  # 1973-03-03; in seconds the same digits reach the year 5138


def parse_timestamp_ms(value: object) -> int:
    """Milliseconds since the epoch. A time without a zone is UTC.

    :param value: epoch milliseconds (a number or its digits), ISO 8601 text, or a datetime.
    :raises ValueError: a sentence that follows the parameter's name.
    """
    if isinstance(value, str):
        milliseconds = _from_text(value)
    elif isinstance(value, datetime):
        milliseconds = _from_datetime(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        milliseconds = value
    else:
        raise ValueError(f"is {shown(value)}; give epoch milliseconds, ISO 8601 or a datetime")
    if milliseconds < 0:
        raise ValueError(f"is {shown(value)}, before 1970; a timestamp cannot be negative")
    if milliseconds > _LATEST_MS:
        raise ValueError(f"is {shown(value)}, more than 64 bits; give epoch milliseconds")
    return milliseconds


def _from_text(text: str) -> int:
    if re.fullmatch(r"\s*-?[0-9]{1,30}\s*", text):
        return int(text)
    try:
        return _from_datetime(datetime.fromisoformat(text.strip()))
    except ValueError:
        raise ValueError(f"is {shown(text)}; give epoch milliseconds or ISO 8601 (2026-11-20T10:00:00Z)") from None


def _from_datetime(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return (aware - _EPOCH) // timedelta(milliseconds=1)  # integers: datetime.timestamp() is a float
    except OverflowError:  # an offset from UTC that leads past the years 1 to 9999
        raise ValueError(f"is {shown(moment)}, outside the years that UTC has") from None


def looks_like_seconds(timestamp_ms: int) -> bool:
    """Whether the number is more plausible as seconds than as milliseconds (B10, FLINK-28454)."""
    return 0 < timestamp_ms < _SECONDS_BELOW_MS


def iso(timestamp_ms: int) -> str:
    """``2026-11-20T10:00Z``, with seconds and milliseconds only where there are any."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    seconds = f":{moment:%S}" if timestamp_ms % 60_000 else ""
    millis = f".{timestamp_ms % 1000:03d}" if timestamp_ms % 1000 else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M}{seconds}{millis}Z"
