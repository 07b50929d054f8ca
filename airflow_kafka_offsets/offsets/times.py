"""What people write for a moment in time → milliseconds since the epoch, UTC.

Kafka's record timestamps are milliseconds; a value in seconds is a day in January 1970, from which everything is read
(FLINK-28454). Such a value is legal, so it is only warned of (:func:`looks_like_seconds`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

SECONDS_SUSPECTED_BELOW_MS = 10**11  # 1973-03-03; in seconds the same digits reach the year 5138


def parse_timestamp_ms(value: int | str | datetime) -> int:
    """Milliseconds since the epoch for ``value``.

    :param value: epoch milliseconds (a number or its digits), an ISO 8601 string or a datetime. Without a zone: UTC.
    :raises ValueError: what is wrong with it, in a sentence that can follow the parameter's name.
    """
    if isinstance(value, bool):
        raise ValueError(f"is {value!r}, not a time")
    if isinstance(value, int):
        milliseconds = value
    elif isinstance(value, datetime):
        milliseconds = _from_datetime(value)
    elif isinstance(value, str) and re.fullmatch(r"\s*-?\d+\s*", value):
        milliseconds = int(value)
    elif isinstance(value, str):
        try:
            milliseconds = _from_datetime(datetime.fromisoformat(value.strip()))
        except ValueError:
            raise ValueError(
                f"is {value!r}; give epoch milliseconds, ISO 8601 (2026-11-20T10:00:00Z) or a datetime"
            ) from None
    else:
        raise ValueError(f"is {value!r}; give epoch milliseconds, ISO 8601 or a datetime")
    if milliseconds < 0:
        raise ValueError(f"is {value!r}, before 1970; timestamps cannot be negative")
    return milliseconds


def _from_datetime(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # Integer arithmetic: datetime.timestamp() is a float, whose last millisecond is not exact.
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def looks_like_seconds(timestamp_ms: int) -> bool:
    """Whether the number is more plausible as seconds than as milliseconds (rule B10)."""
    return 0 < timestamp_ms < SECONDS_SUSPECTED_BELOW_MS


def iso(timestamp_ms: int) -> str:
    """``2026-11-20T10:00Z``, with seconds and milliseconds only where there are any."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    seconds = f":{moment:%S}" if timestamp_ms % 60_000 else ""
    millis = f".{timestamp_ms % 1000:03d}" if timestamp_ms % 1000 else ""
    return f"{moment:%Y-%m-%dT%H:%M}{seconds}{millis}Z"


_DURATION = re.compile(r"(\d+)d|p(?:(\d+)w)?(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?)?", re.IGNORECASE)
_UNIT_S = (86_400, 604_800, 86_400, 3_600, 60, 1)


def parse_duration_ms(value: str) -> int:
    """Milliseconds of an ISO 8601 duration (``P90D``, ``PT36H``) or of ``90d``. Months and years have no fixed length.

    :raises ValueError: what is wrong with it, in a sentence that can follow the parameter's name.
    """
    match = _DURATION.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"is {value!r}; give days (90d) or an ISO 8601 duration without months and years (P90D)")
    return 1000 * sum(int(count or 0) * unit for count, unit in zip(match.groups(), _UNIT_S, strict=True))
