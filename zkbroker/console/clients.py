"""Clients by API and version, from the counts of the brokers' admin pages.

Invariant: brokers that could not be asked are named; a page that is not of the expected form counts
as one of them. The pages are read again after `KEPT_MS` at the earliest.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from zkbroker.console.cluster_state import ClusterState
from zkbroker.console.pages import AdminPages
from zkbroker.console.releases import oldest, order, since
from zkbroker.runtime import Runtime

KEPT_MS = 5_000
_ADDRESSES = 8


class Clients:
    """The clients of a cluster, from the pages of its brokers."""

    def __init__(self, pages: AdminPages, seen: ClusterState, runtime: Runtime) -> None:
        self._pages = pages
        self._seen = seen
        self._runtime = runtime
        self._read_ms: int | None = None
        self._found: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._last_ms: dict[str, int] = {}
        self._reading = runtime.lock()

    def view(self) -> dict[str, Any]:
        """Return the clients as the API shows them."""
        with self._reading:
            now_ms = self._runtime.clock_ms()
            if self._read_ms is None or now_ms - self._read_ms >= KEPT_MS:
                self._found = self._read()
                self._read_ms = self._runtime.clock_ms()
        return self._found

    def _read(self) -> dict[str, Any]:
        # Brokers whose pages were checked to be their own.
        pages = self._pages.read("/clients", sorted(self._seen.facts))
        read = {
            broker: merged
            for broker, page in pages.items()
            if isinstance(page, Mapping) and (merged := _requests_of(page)) is not None
        }
        requests: defaultdict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
        addresses: defaultdict[str, set[str]] = defaultdict(set)
        names: dict[int, str] = {}
        for page in read.values():
            for client, hosts, counted in page:
                addresses[client] |= hosts
                for api_key, name, version, count in counted:
                    requests[client][api_key, version] += count
                    names[api_key] = name
        now_ms = self._runtime.now_ms()
        totals = {client: counts.total() for client, counts in requests.items()}
        rows = []
        for client, counts in sorted(requests.items()):
            if client in self._counts and totals[client] != self._counts[client]:
                self._last_ms[client] = now_ms
            rows.append(
                {
                    "client_id": client,
                    "host": ", ".join(sorted(addresses[client])[:_ADDRESSES]) or None,
                    "apis": [
                        {
                            "api": names[api_key],
                            "version": version,
                            "count": count,
                            "since": since(api_key, version),
                        }
                        for (api_key, version), count in sorted(counts.items())
                    ],
                    "oldest": oldest(counts),
                    "last_seen_ms": self._last_ms.get(client),
                }
            )
        self._counts = totals
        self._last_ms = {name: at for name, at in self._last_ms.items() if name in totals}
        return {
            "clients": rows,
            "by_generation": _by_release(rows),
            "sources": sorted(read),
            "missing": sorted(self._seen.alive - read.keys()),
        }


def _by_release(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter(row["oldest"] for row in rows if row["oldest"] is not None)
    return [
        {"generation": release, "clients": counts[release]} for release in sorted(counts, key=order)
    ]


Counted = tuple[str, set[str], list[tuple[int, str, int, int]]]


def _requests_of(page: Mapping[str, Any]) -> list[Counted] | None:
    """Return the counts of a page; None if it has another form."""
    found: list[Counted] = []
    try:
        for client in page["clients"]:
            counted = [
                (
                    int(each["api_key"]),
                    _title(str(each["api"] or f"key {each['api_key']}")),
                    int(each["version"]),
                    int(each["count"]),
                )
                for each in client["requests"]
            ]
            hosts = {str(each) for each in client["addresses"]}
            found.append((str(client["client_id"] or ""), hosts, counted))
    except (KeyError, TypeError, ValueError):
        return None
    return found


def _title(name: str) -> str:
    """Return `ListOffsets` of `LIST_OFFSETS`."""
    return "".join(part.capitalize() for part in name.split("_")) if name.isupper() else name
