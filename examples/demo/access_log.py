"""Reads, generates and parses access logs in Apache's combined format.

A line's member is its client address, the key by which its visits are counted; its event time is
the instant in brackets.
"""

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

EVENT_TIME = re.compile(rb"\[(\d{2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]")
EVENT_TIME_FORMAT = "%d/%b/%Y:%H:%M:%S %z"

_PAGES = ("/", "/profile", "/search", "/jobs", "/groups", "/inbox", "/news", "/people", "/about")
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Windows NT 6.1)", "curl/7.35.0")


def read(path: Path, position: int = 0) -> Iterator[bytes]:
    """Yield the lines from a byte position on, without line ends, leaving out empty ones."""
    with path.open("rb") as log:
        log.seek(position)
        for line in log:
            stripped = line.rstrip(b"\r\n")
            if stripped:
                yield stripped


def member(line: bytes) -> bytes:
    """Return the client address."""
    return line.split(b" ", 1)[0]


def event_time_ms(line: bytes) -> int | None:
    """Return the event time in milliseconds since 1970, None where the line has none."""
    found = EVENT_TIME.search(line)
    return None if found is None else _parse(found.group(1).decode("ascii"))


@lru_cache(maxsize=65_536)
def _parse(text: str) -> int | None:
    try:
        # The format ends with the zone.
        return int(datetime.strptime(text, EVENT_TIME_FORMAT).timestamp() * 1000)  # noqa: DTZ007
    except ValueError:
        return None


def generate(path: Path, events: int, members: int = 2_000, hours: int = 6) -> None:
    """Write generated page views: the same bytes for the same arguments.

    Few members make most of the visits, as on any site.
    """
    chance = random.Random(20150517)
    addresses = [".".join(str(chance.randrange(1, 255)) for _ in range(4)) for _ in range(members)]
    start = datetime(2015, 5, 17, 10, tzinfo=UTC)
    seconds = hours * 3600
    with path.open("w", encoding="ascii", newline="\n") as log:
        for number in range(events):
            address = addresses[int(members * chance.random() ** 3)]
            moment = start + timedelta(seconds=number * seconds // events)
            log.write(
                f"{address} - - [{moment.strftime(EVENT_TIME_FORMAT)}] "
                f'"GET {chance.choice(_PAGES)}?view={number} HTTP/1.1" 200 '
                f'{chance.randrange(200, 60_000)} "-" "{chance.choice(_AGENTS)}"\n'
            )
