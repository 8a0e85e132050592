"""Sends items to one broker; items gather while the previous answer is awaited.

Invariant: one request at a time is in flight to a broker. Each item is answered exactly once, with
its result or with the error of its request. Each submitter waits for its item, so there are never
more items than requests and transactions.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from zkbroker.errors import NetworkError, ZkbrokerError
from zkbroker.runtime import Runtime, Task

Item = TypeVar("Item")
Result = TypeVar("Result")


class Ticket(Generic[Item, Result]):
    """A submitted item."""

    __slots__ = ("_done", "_error", "_result", "item")

    def __init__(self, runtime: Runtime, item: Item) -> None:
        self.item = item
        self._done = runtime.event()
        self._result: Result | None = None
        self._error: ZkbrokerError | None = None

    def finish(self, result: Result | None, error: ZkbrokerError | None = None) -> None:
        """Set the answer; for the courier only."""
        self._result, self._error = result, error
        self._done.set()

    def result(self) -> Result:
        """Wait for the answer.

        Raises:
            ZkbrokerError: the request failed with it.
        """
        self._done.wait()
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise NetworkError("the answer does not contain this item")
        return self._result


class Courier(Generic[Item, Result]):
    """Sends items to one broker.

    Args:
        name: of its task.
        send: sends some items in one request and returns their results, in order.
        runtime: for its task.
        batch_items: how many items one request carries at most.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        runtime: Runtime,
        batch_items: int = 500,
    ) -> None:
        self._name = name
        self._send = send
        self._runtime = runtime
        self._batch_items = batch_items
        self._waiting: deque[Ticket[Item, Result]] = deque()
        self._under_way = 0
        self._task: Task | None = None
        self._closed = False

    @property
    def unanswered(self) -> int:
        """How many items wait to be sent, or for their answer."""
        return len(self._waiting) + self._under_way

    def submit(self, item: Item) -> Ticket[Item, Result]:
        """Submit an item; `Ticket.result` waits for its answer."""
        ticket: Ticket[Item, Result] = Ticket(self._runtime, item)
        if self._closed:
            ticket.finish(None, NetworkError("the broker is stopping"))
            return ticket
        self._waiting.append(ticket)
        if self._task is None or not self._task.alive:
            # The task starts with the first item.
            self._start()
        return ticket

    def close(self) -> None:
        """Refuse all waiting and all later items."""
        self._closed = True
        while self._waiting:
            self._waiting.popleft().finish(None, NetworkError("the broker is stopping"))

    def _start(self) -> None:
        self._task = self._runtime.spawn(self._run, name=self._name)

    def _run(self) -> None:
        while self._waiting:
            count = min(len(self._waiting), self._batch_items)
            batch = [self._waiting.popleft() for _ in range(count)]
            self._under_way = count
            results: Sequence[Result] = ()
            error: ZkbrokerError | None = None
            try:
                results = self._send([each.item for each in batch])
            except ZkbrokerError as failure:
                error = failure
            except Exception:
                # This task ends; another one sends the items that came meanwhile.
                self._start()
                raise
            finally:
                # Whatever the error, no item is left waiting.
                self._under_way = 0
                for at, ticket in enumerate(batch):
                    ticket.finish(results[at] if at < len(results) else None, error)
        self._task = None
