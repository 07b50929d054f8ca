"""How long a window is.

A day is a day of the calendar, 23 to 25 hours long where clocks are changed; hours and minutes are time that passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_kafka_offsets.request.times import parse_duration_parts, parse_timestamp_ms

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
