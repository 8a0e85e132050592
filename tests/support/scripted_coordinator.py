"""A group's coordinator with scripted responses, in place of `CoordinatorConnection`."""

from collections.abc import Callable
from typing import Any

from zkbroker.errors import ErrorCode, RequestTimedOut


class ScriptedResponse:
    """The pending response of one request; None never comes."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self.done = response is not None

    def add_done_callback(self, callback: Callable[["ScriptedResponse"], object]) -> None:
        if self.done:
            callback(self)

    def result(self, timeout_s: float) -> Any:
        if self._response is None:
            raise RequestTimedOut(f"no answer within {timeout_s:g} s")
        return self._response


class ScriptedCoordinator:
    """Answers requests in the order of `responses`; the last one repeats, and errors are raised."""

    broker_id = 1

    def __init__(self, *responses: Any) -> None:
        self._responses = list(responses)
        self.asked: list[Any] = []
        self.lost_codes: list[ErrorCode] = []
        self.lookups: list[bool] = []
        """Whether each look-up finds another coordinator."""

    def send(self, request: Any, lane: str | None = None) -> ScriptedResponse:
        self.asked.append(request)
        response = self._responses[0]
        if len(self._responses) > 1:
            del self._responses[0]
        if isinstance(response, Exception):
            raise response
        return ScriptedResponse(response)

    def ask(self, request: Any, **options: Any) -> Any:
        return self.send(request).result(0)

    def lost(self, error: Any) -> None:
        self.lost_codes.append(error.code)

    def moved_from(self, broker_id: int) -> bool:
        assert broker_id == self.broker_id
        return self.lookups.pop(0)
