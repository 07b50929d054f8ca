"""Parses the ways in which people write a time → milliseconds since the epoch, UTC.

Kafka's record timestamps are milliseconds; a value in seconds is a day in January 1970, from which everything is read
(FLINK-28454). Such a value is legal, so it is only warned of (:func:`looks_like_seconds`).

A relative time counts back from the moment when the plan is made, and in no other direction: ``now``, ``now-2h``, and
an ISO 8601 duration, with a minus or without (``-PT2H`` and ``PT2H`` are both two hours ago).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_kafka_offsets.json_columns import whole

# A producer gives a record up after two minutes (delivery.timeout.ms); what it has not written by then never comes.
DEFAULT_IDLE_TIMEOUT_MS = 300_000
DEFAULT_CLOCK_SKEW_MS = 10_000
FUTURE_AFTER_MS = 3_600_000  # how far past now a record's time may lie; Kafka 4's message.timestamp.after.max.ms
_LATEST_MS = 2**63 - 1
SECONDS_SUSPECTED_BELOW_MS = 10**11  # 1973-03-03; in seconds the same digits reach the year 5138


_NOW = re.compile(r"now(?:\s*-\s*(?P<back>.+))?|-?(?P<duration>P.+)", re.IGNORECASE)


def is_relative(value: object) -> bool:
    """Whether ``value`` counts back from now, and so is another moment each time that it is read."""
    return isinstance(value, str) and re.match(r"\s*(now\b|-?P)", value, re.IGNORECASE) is not None


def parse_timestamp_ms(value: int | str | datetime, *, now_ms: int | None = None, zone: tzinfo = UTC) -> int:
    """Milliseconds since the epoch for ``value``.

    :param value: epoch milliseconds (a number or its digits), an ISO 8601 string, a datetime, or a relative time.
    :param now_ms: what a relative time counts back from; without it there is none.
    :param zone: of a time that names no zone of its own.
    :raises ValueError: what is wrong with it, in a sentence that can follow the parameter's name.
    """
    if isinstance(value, bool):
        raise ValueError(f"is {value!r}, not a time")
    if isinstance(value, int):
        milliseconds = value
    elif isinstance(value, datetime):
        milliseconds = _from_datetime(value, zone)
    elif isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,30}\s*", value):
        milliseconds = int(value)
    elif isinstance(value, str) and now_ms is not None and is_relative(value):
        milliseconds = now_ms - _back_ms(value)
    elif isinstance(value, str):
        try:
            milliseconds = _from_datetime(datetime.fromisoformat(value.strip()), zone)
        except ValueError:
            relative = "" if now_ms is None else ", now-2h"
            raise ValueError(
                f"is {value!r}; give epoch milliseconds, ISO 8601 (2026-11-20T10:00:00Z){relative} or a datetime"
            ) from None
    else:
        raise ValueError(f"is {value!r}; give epoch milliseconds, ISO 8601 or a datetime")
    if milliseconds < 0:
        raise ValueError(f"is {value!r}, before 1970; timestamps cannot be negative")
    if milliseconds > _LATEST_MS:
        raise ValueError(f"is {value!r}, past what Kafka's timestamps can hold; give milliseconds")
    return milliseconds


def _back_ms(text: str) -> int:
    match = _NOW.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"is {text!r}; a relative time counts back from now: now, now-2h, now-1d or -PT2H")
    duration = match["back"] or match["duration"]
    if duration is None:
        return 0
    try:
        return parse_duration_ms(duration)
    except ValueError:
        raise ValueError(
            f"is {text!r}; after the minus goes a number with one of w, d, h, m, s (now-2h), or an ISO 8601 duration "
            "without months and years (now-PT2H)"
        ) from None


def _from_datetime(moment: datetime, zone: tzinfo) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=zone)
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


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def short_time(duration_ms: int) -> str:
    """``31 s``, ``24 min``, ``5 d 3 h``: the largest unit, and the next smaller one of days and hours; cut."""
    for (unit, name), (smaller, below) in zip(_UNITS, (*_UNITS[1:], (0, "")), strict=True):
        if duration_ms >= unit:
            rest = (duration_ms % unit) // smaller if smaller and unit >= 3_600_000 else 0
            return f"{duration_ms // unit:,} {name}" + f" {rest} {below}" * bool(rest)
    return "0 s"


_SHORT = re.compile(r"[0-9]{1,15}[wdhms]", re.IGNORECASE)
_DURATION = re.compile(
    r"(?a:p(?:(N)w)?(?:(N)d)?(?:t(?:(N)h)?(?:(N)m)?(?:(N)s)?)?)".replace("N", r"\d{1,15}"), re.IGNORECASE
)
_UNITS_S = (3_600, 60, 1)


def parse_duration_parts(value: str) -> tuple[int, int]:
    """Days, and the milliseconds beside them, of an ISO 8601 duration (``P90D``, ``PT36H``) or of ``90d``, ``36h``.

    Months and years have no fixed length. Days have one only where no clocks are changed, so they are returned apart.

    :raises ValueError: what is wrong with it, in a sentence that can follow the parameter's name.
    """
    written = value.strip()
    if _SHORT.fullmatch(written):
        written = f"P{'T' * (written[-1].lower() in 'hms')}{written}"
    match = _DURATION.fullmatch(written)
    if match is None or not any(match.groups()):
        raise ValueError(f"is {value!r}; give days (90d) or an ISO 8601 duration without months and years (P90D)")
    weeks, days, *rest = (int(count or 0) for count in match.groups())
    return 7 * weeks + days, 1000 * sum(count * unit for count, unit in zip(rest, _UNITS_S, strict=True))


def parse_duration_ms(value: str) -> int:
    """The same in milliseconds, a day being 24 hours."""
    days, milliseconds = parse_duration_parts(value)
    return days * 86_400_000 + milliseconds


def parse_wait_ms(value: timedelta | float | str) -> int:
    """Milliseconds of a ``timedelta``, of seconds, or of an ISO 8601 duration (``PT10M``).

    :raises ValueError: what is wrong with it, in a sentence that can follow the parameter's name.
    """
    if isinstance(value, bool):
        raise ValueError(f"is {value!r}, not a duration")
    if isinstance(value, timedelta):
        milliseconds = value // timedelta(milliseconds=1)
    elif isinstance(value, int | float):
        milliseconds = _seconds_ms(value, value)
    elif not isinstance(value, str):
        raise ValueError(f"is {value!r}; give seconds, a timedelta or an ISO 8601 duration")
    elif re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
        milliseconds = _seconds_ms(float(value), value)
    else:
        milliseconds = parse_duration_ms(value)
    if milliseconds < 0:
        raise ValueError(f"is {value!r}; a duration cannot be negative")
    return milliseconds


def parse_span_ms(value: timedelta | float | str | None) -> int | None:
    """The same, of a duration that is longer than nothing; ``None`` where none is given.

    :raises ValueError: what is wrong with it, in a sentence that can follow the parameter's name.
    """
    milliseconds = None if value is None else parse_wait_ms(value)
    if milliseconds == 0:
        raise ValueError(f"is {value!r}; it must be longer than nothing")
    return milliseconds


def _seconds_ms(seconds: float, written: float | str) -> int:
    try:
        return whole(round(seconds * 1000))
    except (ValueError, OverflowError):  # infinite, no number, or more than 64 bits
        raise ValueError(
            f"is {written!r}, which has no end; give seconds, a timedelta or an ISO 8601 duration"
        ) from None


# ── how long a window is ──────────────────────────────────────────────────────────────────────────────────────────────
# A day is a day of the calendar, 23 to 25 hours long where clocks are changed; hours and minutes are time that
# passes.


_NAMES = {"hourly": "PT1H", "daily": "P1D", "weekly": "P7D"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Width:
    """The length of a window: days of the calendar, and time that passes."""

    days: int
    rest_ms: int

    def __post_init__(self) -> None:
        if self.days < 0 or self.rest_ms < 0 or self.days + self.rest_ms == 0:
            raise ValueError(f"a window of {self.days} days and {self.rest_ms} ms has no length")

    def after(self, start_ms: int, zone: tzinfo) -> int:
        """A width after ``start_ms``, by the calendar of ``zone``."""
        if not self.days:
            return start_ms + self.rest_ms
        try:
            local = (_EPOCH + timedelta(milliseconds=start_ms)).astimezone(zone)
            by_the_clock = local.replace(tzinfo=None) + timedelta(days=self.days)
            return parse_timestamp_ms(by_the_clock.replace(fold=local.fold), zone=zone) + self.rest_ms
        except OverflowError:  # past the year 9999, for which there is no calendar
            return start_ms + self.days * 86_400_000 + self.rest_ms


def parse_width(value: str | timedelta) -> Width:
    """``hourly``, ``daily``, ``weekly``, an ISO 8601 duration (``PT15M``, ``P1D``) or a ``timedelta``.

    A ``timedelta`` counts as Python has it: ``timedelta(hours=24)`` is a day.

    :raises ValueError: what is wrong with it, in a sentence that can follow the parameter's name.
    """
    if isinstance(value, timedelta):
        days, rest_ms = value.days, value.seconds * 1000 + value.microseconds // 1000
    elif isinstance(value, str):
        try:
            days, rest_ms = parse_duration_parts(_NAMES.get(value.strip().lower(), value))
        except ValueError:
            raise ValueError(
                f"is {value!r}; give {', '.join(_NAMES)} or an ISO 8601 duration without months and years (PT15M)"
            ) from None
    else:
        raise ValueError(f"is {value!r}; give an ISO 8601 duration (PT1H) or a timedelta")
    try:
        return Width(days, rest_ms)
    except ValueError:
        raise ValueError(f"is {value!r}, which has no length; give an ISO 8601 duration such as PT1H") from None


def parse_zone(name: str) -> tzinfo:
    """:raises ValueError: there is no time zone of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"is {name!r}; give a name such as UTC or Europe/Berlin") from None
