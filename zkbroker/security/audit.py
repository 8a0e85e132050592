"""The audit log on the logger `zkbroker.audit`: denied operations, and at DEBUG allowed ones.

    denied principal=User:bob operation=Write resource=Topic:orders host=10.0.0.7 client_id=app
    denied again principal=User:bob operation=Write resource=Topic:orders times=4711
    denied more times=120: too many different ones for a line each

Invariant: a client cannot fill the disk. The same denial (principal, operation, resource) gets one
line a minute, and at most `MAX_LINES` different denials get a line in a minute; the others are
counted, and the counts are logged after the minute. Names that clients sent are truncated, and
escaped if they are not printable.
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
    """Logs decisions.

    Args:
        now_ms: the clock.
        on_denied: called with each denial that gets a line.
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
        """Log one decision, or count it."""
        if allowed:
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("allowed %s", _described(principal, operation, resource, host, client))
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
            logger.warning("denied %s", _described(principal, operation, resource, host, client))
            self._on_denied(principal, operation)

    def flush(self) -> None:
        """Log the counts and start new ones."""
        denied, more = self._denied, self._more
        self._denied, self._more = {}, 0
        for (principal, operation, resource), times in denied.items():
            if times:
                logger.warning(
                    "denied again %s times=%d", _named(principal, operation, resource), times
                )
        if more:
            logger.warning("denied more times=%d: too many different ones for a line each", more)


def _described(
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
