"""The audit log: what was denied, and at DEBUG what was allowed, on the logger `zkbroker.audit`.

    denied principal=User:bob operation=Write resource=Topic:orders host=10.0.0.7 client_id=app
    denied again principal=User:bob operation=Write resource=Topic:orders times=4711
    denied more times=120: too many different ones for a line each

Invariant: a client cannot fill the disk: the same denial (principal, operation, resource) has one
line a minute, at most `MAX_LINES` different ones have a line in a minute, and the rest is counted
and logged when the minute is over. What clients sent is cut and quoted where it is not printable.
"""

import logging
from collections.abc import Callable

from zkbroker.security.authorizer import Operation, Resource
from zkbroker.security.principal import Principal

logger = logging.getLogger("zkbroker.audit")

WINDOW_MS = 60_000
MAX_LINES = 200
_MAX_CHARS = 300

_Key = tuple[Principal, Operation, Resource]


class AuditLog:
    """Notes decisions.

    Args:
        now_ms: the clock.
        on_denied: called with each denial that has a line.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        on_denied: Callable[[Principal, Operation], object] = lambda principal, operation: None,
    ) -> None:
        self._now_ms = now_ms
        self._on_denied = on_denied
        self._until_ms = 0
        self._denied: dict[_Key, int] = {}
        self._more = 0

    def note(
        self,
        principal: Principal,
        operation: Operation,
        resource: Resource,
        host: str,
        *,
        allowed: bool,
        client: str | None = None,
    ) -> None:
        """Note one decision."""
        if allowed:
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("allowed %s", _told(principal, operation, resource, host, client))
            return
        now_ms = self._now_ms()
        if now_ms >= self._until_ms or now_ms < self._until_ms - WINDOW_MS:
            self.flush()
            self._until_ms = now_ms + WINDOW_MS
        key = (principal, operation, resource)
        again = self._denied.get(key)
        if again is not None:
            self._denied[key] = again + 1
        elif len(self._denied) >= MAX_LINES:
            self._more += 1
        else:
            self._denied[key] = 0
            logger.warning("denied %s", _told(principal, operation, resource, host, client))
            self._on_denied(principal, operation)

    def flush(self) -> None:
        """Tell what was counted, and begin to count again."""
        denied, more = self._denied, self._more
        self._denied, self._more = {}, 0
        for (principal, operation, resource), times in denied.items():
            if times:
                logger.warning(
                    "denied again %s times=%d", _named(principal, operation, resource), times
                )
        if more:
            logger.warning("denied more times=%d: too many different ones for a line each", more)


def _told(
    principal: Principal, operation: Operation, resource: Resource, host: str, client: str | None
) -> str:
    return f"{_named(principal, operation, resource)} host={host} client_id={_text(client or '')}"


def _named(principal: Principal, operation: Operation, resource: Resource) -> str:
    return (
        f"principal={_text(str(principal))} operation={operation.label} "
        f"resource={resource.type.label}:{_text(resource.name)}"
    )


def _text(text: str) -> str:
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= _MAX_CHARS else f"{shown[:_MAX_CHARS]}..."
