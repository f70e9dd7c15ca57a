"""When shifts begin: times of day as the clocks on the wall show them, summer time included."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

_DAY = timedelta(days=1)
# clocks that were not set yet say 1970
_PLAUSIBLE = datetime(2020, 1, 1, tzinfo=UTC)


def _time_of_day(text: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text):
        raise ValueError(f'{text} is no time of day; write hours and minutes in quotes, like "06:00"')
    return text


def _sorted(times: tuple[str, ...]) -> tuple[str, ...]:
    if not times:
        raise ValueError("names no time; leave the key out for the default")
    twice = sorted({one for one in times if times.count(one) > 1})
    if twice:
        raise ValueError(f"{twice[0]} is written twice; each shift begins once a day")
    return tuple(sorted(times))


_HHMM = Annotated[str, StringConstraints(max_length=20), AfterValidator(_time_of_day)]
ShiftTimes = Annotated[
    tuple[_HHMM, ...],
    # min_length would count only those that are right, and complain twice
    Field(max_length=24, json_schema_extra={"minItems": 1}),
    AfterValidator(_sorted),
]
"""``["06:00", "14:00", "22:00"]``; in any order, kept in that of the day."""

DEFAULT: ShiftTimes = ("06:00", "14:00", "22:00")


class Shifts:
    """Says of any instant which shift it belongs to. Local time is the process's (``TZ``, /etc/localtime)."""

    def __init__(self, times: ShiftTimes) -> None:
        self._times = [time.fromisoformat(one) for one in times]

    def began(self, now: datetime) -> datetime:
        """The last beginning of a shift that is not later than ``now``; both UTC."""
        return max(one for one in self._around(now) if one <= now)

    def next(self, after: datetime) -> datetime:
        """The first beginning of a shift later than ``after``; both UTC."""
        return min(one for one in self._around(after) if one > after)

    def due(self, since: datetime | None, now: datetime) -> datetime | None:
        """When the shift began that follows the one that began at ``since``; None while that one lasts.

        A clock that is set back by less than a day brings no second shift: the running one waits for it. By
        more than that its beginning was a mistake of the clock, so it ends. A clock that was never set says
        nothing.
        """
        began = self.began(now)
        if since is None:
            return began
        if now < _PLAUSIBLE or began == since or (since > began and since - now < _DAY):
            return None
        return began

    def _around(self, at: datetime) -> list[datetime]:
        # a day more on each side than any time zone needs
        today = at.astimezone().date()
        days = [today + shift * _DAY for shift in (-2, -1, 0, 1, 2)]
        # astimezone takes a naive time for local; one that summer time leaps over is taken as if it did not,
        # one that comes twice as the first
        return [datetime.combine(day, one).astimezone(UTC) for day in days for one in self._times]
