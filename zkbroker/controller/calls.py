"""Calls of other tasks that the controller's task answers.

Invariant: every call ends, with an answer, with the error of its function, or refused because this
broker is not the controller. At most `MAX_WAITING_CALLS` wait.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from zkbroker.controller.term import ControllerTerm
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.runtime import Runtime

MAX_WAITING_CALLS = 1000

Answer = TypeVar("Answer")


class _Call:
    def __init__(self, runtime: Runtime, function: Callable[[ControllerTerm], Any]) -> None:
        self.function = function
        self.done = runtime.event()
        self.answer: Any = None
        self.error: Exception | None = None

    def end(self, answer: Any = None, error: Exception | None = None) -> None:
        self.answer, self.error = answer, error
        self.done.set()


class ControllerCalls:
    """The waiting calls. Args: wake makes the controller's task call `answer_next`."""

    def __init__(self, runtime: Runtime, wake: Callable[[], object]) -> None:
        self._runtime = runtime
        self._wake = wake
        self._waiting: deque[_Call] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def ask(
        self,
        function: Callable[[ControllerTerm], Answer],
        not_controller: ErrorCode,
        timeout_s: float,
    ) -> Answer:
        """Call a function in the controller's task and return its result.

        Args:
            function: called with the term.
            not_controller: the error code while this broker is not the controller.
            timeout_s: how long to wait.

        Raises:
            ProtocolError: `not_controller`, REQUEST_TIMED_OUT, or the function's own error.
        """
        if len(self._waiting) >= MAX_WAITING_CALLS:
            raise ProtocolError("too many requests wait for the controller", code=not_controller)
        call = _Call(self._runtime, function)
        self._waiting.append(call)
        self._wake()
        if not call.done.wait(timeout_s):
            raise ProtocolError(
                f"the controller did not answer within {timeout_s:g} s",
                code=ErrorCode.REQUEST_TIMED_OUT,
            )
        if isinstance(call.error, ControllerMoved):
            raise ProtocolError("this broker is no longer the controller", code=not_controller)
        if call.error is not None:
            raise call.error
        answer: Answer = call.answer
        return answer

    def answer_next(self, term: ControllerTerm) -> None:
        """Answer the oldest call.

        Raises:
            Exception: any error of its function but a ProtocolError, which only the caller gets.
        """
        call = self._waiting.popleft()
        try:
            call.end(call.function(term))
        except ProtocolError as refused:
            call.end(error=refused)
        except Exception as error:
            call.end(error=error)
            raise

    def refuse_all(self) -> None:
        """Refuse every waiting call: this broker is not the controller."""
        while self._waiting:
            self._waiting.popleft().end(error=ControllerMoved("not the controller"))
