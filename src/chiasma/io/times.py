"""Dates and times as positions: seconds since 1970 in a signal, ISO 8601 in files, regions and reports.

A signal keeps the time zone of its time stamps: "+02:00", or "" where they name none, which is read as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Literal

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.types import Floats

DATE = r"\d{4}-\d\d-\d\d"
CLOCK = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")
# Between the first and the last moment of a range: a slash, as in ISO 8601, or a dash or "to" with spaces around it.
BETWEEN = re.compile(r"\s*/\s*|\s+(?:-|–|to)\s+")
# The last moment of a day; time stamps have no finer digits.
DAY = timedelta(days=1, microseconds=-1)
HOW = "2024-05-01, 2024-05-01T08:00 or 2024-05-01T08:00/2024-05-01T09:30"


def zone_of(moments: Iterable[datetime]) -> str:
    """The time zone that all of them name, "" where none does, and UTC where they name several.

    >>> zone_of([datetime.fromisoformat("2024-05-01T08:00+02:00")]), zone_of([datetime(2024, 5, 1)])
    ('+02:00', '')
    """
    offsets = {moment.utcoffset() for moment in moments}
    if offsets == {None}:
        return ""
    first = offsets.pop()
    return "+00:00" if offsets or not first else timezone(first).tzname(None).removeprefix("UTC")


def as_zone(zone: str) -> tzinfo:
    """Raises ValueError for anything but a time zone."""
    return datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo or UTC


def seconds_of(moment: datetime, zone: str = "") -> float:
    """Seconds since 1970; zone: of a moment without one."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=as_zone(zone))).timestamp()


def time_text(seconds: float, zone: str) -> str:
    """A moment in ISO 8601, without seconds where they are 0; it names the zone where the time stamps do.

    >>> time_text(1714550400.0, ""), time_text(1714550400.25, "+02:00")
    ('2024-05-01T08:00', '2024-05-01T10:00:00.250000+02:00')
    """
    moment = datetime.fromtimestamp(seconds, as_zone(zone))
    digits = "auto" if moment.second or moment.microsecond else "minutes"
    return (moment if zone else moment.replace(tzinfo=None)).isoformat(timespec=digits)


def times_text(first: float, last: float, zone: str) -> str:
    """A range of moments as `time_span` takes it; the day of the last one is left out if it equals the first.

    >>> times_text(1714550400.0, 1714555800.0, "+02:00"), times_text(1714550400.0, 1714650400.0, "")
    ('2024-05-01T10:00+02:00/11:30', '2024-05-01T08:00/2024-05-02T11:46:40')
    """
    begin, end = time_text(first, zone), time_text(last, zone)
    day, _, _ = begin.partition("T")
    if begin == end:
        return begin
    return f"{begin}/{end.removeprefix(f'{day}T').removesuffix(zone) if end.startswith(day) else end}"


def times_column(moments: Floats, zone: str) -> list[str]:
    """Moments in ISO 8601, all with seconds, and with fractions of them if one has any: programs ask for one format.

    >>> times_column(np.array([1714550400.0, 1714550430.0]), "+02:00")
    ['2024-05-01T10:00:00+02:00', '2024-05-01T10:00:30+02:00']
    """
    offset = as_zone(zone).utcoffset(None) or timedelta()
    clock = np.rint(1e6 * (moments + offset.total_seconds())).astype("datetime64[us]")
    digits: Literal["us", "s"] = "us" if (clock != clock.astype("datetime64[s]")).any() else "s"
    return [f"{text}{zone}" for text in np.datetime_as_string(clock, unit=digits).tolist()]


def duration_text(seconds: float) -> str:
    """A length of time in its two largest units; what is smaller is rounded.

    >>> duration_text(5400), duration_text(7200), duration_text(93_600), duration_text(59.25), duration_text(7199.9)
    ('1 h 30 min', '2 h', '1 day 2 h', '59.25 s', '2 h')
    """
    units = (("day", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for (name, large), (smaller, small) in pairwise(units):
        rounded = small * round(seconds / small)
        if rounded >= large:
            n, rest = rounded // large, rounded % large // small
            first = f"{n} {name}{'s' if name == 'day' and n > 1 else ''}"
            return f"{first} {rest} {smaller}" if rest else first
    return f"{seconds:.4g} s"


def names_a_day(text: str) -> bool:
    """Whether a text begins with a date.

    >>> names_a_day("2024-05-01T08:00"), names_a_day("2024-05"), names_a_day("120-180")
    (True, False, False)
    """
    return re.match(rf"\s*{DATE}(?!\d)", text) is not None


def time_span(text: str, zone: str) -> tuple[float, float | None]:
    """First and last second of a range, both included; a day is itself a range. None: of one moment.

    >>> time_span("2024-05-01", "")
    (1714521600.0, 1714607999.999999)
    >>> time_span("2024-05-01 08:00 - 2024-05-01 09:30", "") == time_span("2024-05-01T08:00/09:30", "")
    True
    >>> time_span("2024-05-01T08:00", "+02:00")
    (1714543200.0, None)
    """
    first, *rest = BETWEEN.split(text.strip())
    low = _moment(first, text)
    if len(rest) > 1:
        raise _not_a_time(text, text)
    high = _moment(rest[0], text, low) if rest else None
    if re.fullmatch(DATE, (rest or [first])[0]):
        high = (high or low) + DAY
    return seconds_of(low, zone), None if high is None else seconds_of(high, zone)


def _moment(part: str, text: str, first: datetime | None = None) -> datetime:
    """first : start of the range, whose day a time without a date belongs to."""
    try:
        if names_a_day(part):
            return datetime.fromisoformat(part)
        if first is not None and CLOCK.fullmatch(part):
            return datetime.combine(first.date(), time.fromisoformat(part), first.tzinfo)
    except ValueError:
        pass
    raise _not_a_time(part, text)


def _not_a_time(part: str, text: str) -> InvalidInput:
    where = "" if part == text else f" in {text!r}"
    return InvalidInput(f"expected dates and times such as {HOW}, got {part!r}{where}; write them in this way")
