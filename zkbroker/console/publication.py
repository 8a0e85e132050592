"""One publication of a collector: the views of one moment, made on request.

Invariant: a view is made once for all requests, and never changes.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from zkbroker.console import views
from zkbroker.console.access import ClusterAccess
from zkbroker.console.cluster_state import ClusterState

Row = Mapping[str, Any]

_TEXTS = 8


class Publication:
    """Views of a cluster at one time; numbers grow, and 0 is before the first look."""

    def __init__(
        self, number: int, seen: ClusterState, access: ClusterAccess, time_ms: int
    ) -> None:
        self.number = number
        self._texts: dict[tuple[str, int], str | None] = {}
        self.time_ms = time_ms
        # Made now, before the collector changes its state.
        self.topics: Sequence[Row] = views.topics(seen)
        self.groups: Sequence[Row] = views.groups(seen)
        self.overview: Row = views.overview(seen, access, self.topics, time_ms, looked=number > 0)

    @cached_property
    def overview_text(self) -> str:
        """The overview for streams, without the fields that only its page shows."""
        brokers = [
            {
                name: value
                for name, value in each.items()
                if name not in ("listeners", "directories")
            }
            for each in self.overview["brokers"]
        ]
        return dumps({**self.overview, "brokers": brokers})

    @cached_property
    def series(self) -> Mapping[str, float | None]:
        """The numbers of its sample."""
        return views.series(self.overview, self.topics, self.groups)

    def changed_text(self, what: str, before: "Publication | None") -> str | None:
        """Return the changed rows as text; None where there are none."""
        key = (what, -1 if before is None else before.number)
        if key not in self._texts:
            # Most readers have the previous publication.
            if len(self._texts) >= _TEXTS:
                self._texts.clear()
            rows = self.changed(what, before)
            self._texts[key] = dumps(rows) if rows or before is None else None
        return self._texts[key]

    def changed(self, what: str, before: "Publication | None") -> list[Row]:
        """Return the changed rows of `topics` or `groups`."""
        rows: Sequence[Row] = getattr(self, what)
        if before is None:
            return list(rows)
        old = {views.row_key(row): row for row in getattr(before, what)}
        return [row for row in rows if old.get(views.row_key(row)) != row]

    def gone(self, what: str, before: "Publication | None") -> list[Any]:
        """Return the names of rows that no longer exist."""
        if before is None:
            return []
        now = {views.row_key(row) for row in getattr(self, what)}
        return [
            list(key) if isinstance(key, tuple) else key
            for row in getattr(before, what)
            if (key := views.row_key(row)) not in now
        ]


def dumps(value: object) -> str:
    """Return JSON on one line, without NaN and infinities."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
