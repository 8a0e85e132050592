"""Reads the admin pages of brokers: `/summary` and `/clients`.

Invariant: the data of a page that does not answer, or is not as expected, stays unknown; at most
    `MAX_BYTES` of a page are read. Waiting for pages does not block other tasks.
"""

import base64
import json
import urllib.request
from collections.abc import Collection, Mapping
from typing import Any

from zkbroker.broker.mounting import OwnPage
from zkbroker.console.access import ClusterSettings
from zkbroker.console.cluster_state import BrokerFacts, ClusterState
from zkbroker.console.pace import QuestionPace
from zkbroker.errors import ClientError
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import side_by_side
from zkbroker.security.sasl.pages import read_page

MAX_BYTES = 16 * 1024 * 1024
_TIMEOUT_S = 5
_AT_ONCE = 8
_RATES = (
    ("bytes_in", "bytes_in_s"),
    ("bytes_out", "bytes_out_s"),
    ("messages_in", "messages_in_s"),
)


class AdminPages:
    """Reads the admin pages of the brokers in `seen`, and fills it.

    `own` has the pages, by broker id, of a broker of this process.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        seen: ClusterState,
        runtime: Runtime,
        every_s: float,
        own: Mapping[int, OwnPage],
    ) -> None:
        self._own = own
        self._settings = settings
        self._seen = seen
        self._runtime = runtime
        self._pace = QuestionPace(every_s)
        self._before: dict[int, tuple[int, Mapping[str, Any]]] = {}

    def address(self, broker: int) -> str | None:
        """Return the address of a broker's admin page; None if none is known."""
        given = self._settings.admin_pages.get(broker)
        known = self._seen.brokers.get(broker)
        if given is not None or known is None or self._settings.admin_port is None:
            return given
        host = f"[{known.host}]" if ":" in known.host else known.host
        return f"http://{host}:{self._settings.admin_port}"

    def look(self, now_ms: int) -> None:
        """Read `/summary` of every page if that is due."""
        if not self._pace.due(now_ms):
            return
        found = self.read("/summary")
        self._pace.done(now_ms, 0)
        facts: dict[int, BrokerFacts] = {}
        failed = []
        for broker, page in found.items():
            if isinstance(page, Mapping) and page.get("id") == broker:
                facts[broker] = self._facts(broker, page)
            elif isinstance(page, Mapping):
                failed.append(f"broker {broker}: its address is the page of another broker")
            else:
                failed.append(f"broker {broker}: {page}")
        self._seen.facts = facts
        self._seen.note_trouble(
            "pages",
            failed,
            "admin pages do not answer, so that clients and rates of bytes are missing",
        )

    def read(
        self, path: str, brokers: Collection[int] | None = None
    ) -> dict[int, Mapping[str, Any] | str]:
        """Return broker → the JSON of a page, or the error; only for brokers with pages.

        Args:
            path: of the page.
            brokers: to ask; all registered ones by default.
        """
        asked = {
            broker: address
            for broker in sorted(self._seen.alive if brokers is None else brokers)
            if broker not in self._own and (address := self.address(broker)) is not None
        }
        found: dict[int, Mapping[str, Any] | str] = {
            broker: page(path)
            for broker, page in self._own.items()
            if brokers is None or broker in brokers
        }

        def step(broker: int) -> None:
            try:
                found[broker] = self._runtime.offload(self._page, asked[broker] + path)
            except (OSError, ClientError) as error:
                found[broker] = str(error)

        side_by_side(self._runtime, list(asked), step, _AT_ONCE, "console-pages")
        return found

    def _page(self, address: str) -> Mapping[str, Any]:
        request = urllib.request.Request(address)  # noqa: S310 - the scheme is http or https
        user, password = self._settings.admin_user, self._settings.admin_password
        if user is not None and password is not None:
            text = f"{user}:{password.reveal()}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(text).decode()}")
        try:
            page = json.loads(read_page(request, _TIMEOUT_S, MAX_BYTES))
        except (ValueError, RecursionError):
            raise ClientError(f"{address} is not a broker's page: it is not JSON") from None
        if not isinstance(page, dict):
            raise ClientError(f"{address} is not a broker's page: it is not a JSON object")
        return page

    def _facts(self, broker: int, page: Mapping[str, Any]) -> BrokerFacts:
        now_ms = self._runtime.clock_ms()
        then_ms, before = self._before.get(broker, (now_ms, {}))
        self._before[broker] = (now_ms, page)
        seconds = (now_ms - then_ms) / 1000
        rates: dict[str, float | None] = {
            name: _rate(before.get(count), page.get(count), seconds) for count, name in _RATES
        }
        version = page.get("version")
        return BrokerFacts(
            version=version if isinstance(version, str) else None,
            cpu=_rate(before.get("cpu_seconds"), page.get("cpu_seconds"), seconds),
            resident_bytes=_whole(page.get("resident_bytes")),
            connections=_whole(page.get("connections")),
            **rates,
        )


def _rate(before: Any, now: Any, seconds: float) -> float | None:
    """Return the rate of a count; None if unknown, as after a restart."""
    if not isinstance(before, int | float) or not isinstance(now, int | float):
        return None
    if seconds <= 0 or now < before:
        return None
    return (now - before) / seconds


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
