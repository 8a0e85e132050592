"""Request counts by client id, API and version.

They show which clients an upgrade would exclude. They are kept in memory, bounded, and written to a
JSON file in the data directory:

    {"version": 1, "since_ms": …, "clients": [{"client_id": "x", "addresses": ["10.0.0.1"],
      "throttled": 0, "throttled_ms": 0,
      "requests": [{"api": "FETCH", "api_key": 1, "version": 0, "count": 17, "served": true}]}]}
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zkbroker.log import FileSystem
from zkbroker.protocol import ApiKey, supported
from zkbroker.runtime import OwnerLoop, Runtime

logger = logging.getLogger(__name__)

SAVED_EVERY_S = 10.0
MAX_CLIENTS = 1000
MAX_ADDRESSES = 8
MAX_REQUEST_KINDS = 1000
MAX_NAME_CHARS = 256
"""Longer client ids are cut: a thousand of the longest allowed ones would take 32 MiB."""
OTHER = "(others)"
FILE_NAME = "client-versions.json"
_OTHER_KINDS = -1


@dataclass(slots=True, eq=False)
class ClientCounts:
    """Counts of one client id.

    Args:
        throttled: number of requests after which its connection was muted.
        throttled_ms: for how long it was muted in total, in ms.
    """

    throttled: int = 0
    throttled_ms: int = 0
    addresses: set[str] = field(default_factory=set)
    requests: dict[int, int] = field(default_factory=dict)

    def count(self, api_key: int, version: int) -> None:
        """Count one request; kinds beyond `MAX_REQUEST_KINDS` are counted as API -1."""
        key = api_key << 16 | (version & 0xFFFF)
        count = self.requests.get(key, 0)
        if not count and len(self.requests) >= MAX_REQUEST_KINDS:
            key = _OTHER_KINDS
            count = self.requests.get(key, 0)
        self.requests[key] = count + 1

    def knows(self, api_key: int) -> bool:
        """Whether a request of this API was counted before, in any version."""
        return len(self.requests) >= MAX_REQUEST_KINDS or any(
            key >> 16 == api_key for key in self.requests
        )


class ClientVersions:
    """Counts of every client id seen since the broker started."""

    def __init__(self, runtime: Runtime) -> None:
        self._since_ms = runtime.now_ms()
        self._clients: dict[str | None, ClientCounts] = {}

    def client(self, client_id: str | None, address: str) -> ClientCounts:
        """Return the counts of a client id; if there are too many ids, those of all others."""
        if client_id is not None and len(client_id) > MAX_NAME_CHARS:
            client_id = f"{client_id[:MAX_NAME_CHARS]}..."
        counts = self._clients.get(client_id)
        if counts is None:
            if len(self._clients) >= MAX_CLIENTS:
                client_id = OTHER
            counts = self._clients.setdefault(client_id, ClientCounts())
        if len(counts.addresses) < MAX_ADDRESSES:
            counts.addresses.add(address)
        return counts

    def throttled(self) -> list[tuple[str, int, int]]:
        """Return the clients that quotas throttled, how often, and for how many ms.

        Quotas do not tell a client without an id from one with an empty id: both are "".
        """
        found: dict[str, tuple[int, int]] = {}
        for name, each in self._clients.items():
            if each.throttled:
                times, throttled_ms = found.get(name or "", (0, 0))
                found[name or ""] = times + each.throttled, throttled_ms + each.throttled_ms
        return [(name, *each) for name, each in found.items()]

    def snapshot(self) -> dict[str, Any]:
        """Return all counts in the form of the file."""
        clients = [
            {
                "client_id": client_id,
                "addresses": sorted(counts.addresses),
                "throttled": counts.throttled,
                "throttled_ms": counts.throttled_ms,
                "requests": [
                    _described(key, count) for key, count in sorted(counts.requests.items())
                ],
            }
            for client_id, counts in sorted(
                self._clients.items(), key=lambda item: (item[0] is not None, item[0] or "")
            )
        ]
        return {"version": 1, "since_ms": self._since_ms, "clients": clients}


def save_clients(directory: Path, snapshot: dict[str, Any]) -> None:
    """Write the file as a whole; it waits for the disk.

    Raises:
        OSError: it cannot be written.
    """
    path = directory / FILE_NAME
    FileSystem().write_file(
        path, json.dumps(snapshot, indent=1).encode(), durable=False, whole=False
    )


def save_often(clients: ClientVersions, directory: Path, runtime: Runtime) -> Callable[[], None]:
    """Write the file every ten seconds; return a function that writes it once more and stops."""

    def save() -> float:
        try:
            runtime.offload(save_clients, directory, clients.snapshot())
        except OSError as error:
            logger.warning("client versions not saved error=%s", error)
        return SAVED_EVERY_S

    loop = OwnerLoop(runtime, save, name="client-versions", logger=logger)
    loop.start(SAVED_EVERY_S)

    def end() -> None:
        loop.close()
        save()

    return end


def _described(key: int, count: int) -> dict[str, Any]:
    api_key, version = key >> 16, key & 0xFFFF
    if version >= 0x8000:
        version -= 0x10000
    try:
        name = ApiKey(api_key).name
    except ValueError:
        name = None
    return {
        "api": name,
        "api_key": api_key,
        "version": version,
        "count": count,
        "served": supported(api_key, version),
    }
