"""Whether a consumer can be used: until it is closed, and in the process that made it."""

from zkbroker.consumer.fetching.messages import ConsumerClosed, ForkedConsumer
from zkbroker.runtime.forks import abandon_in_child


class Usable:
    """Whether one consumer can be used, and the error to raise if not.

    Args:
        refusal: the message of `ConsumerClosed` once it is closed.
    """

    def __init__(self, refusal: str = "the consumer was closed") -> None:
        self._message = refusal
        self._refusal: ConsumerClosed | None = None
        abandon_in_child(self)

    @property
    def ended(self) -> bool:
        """Whether it was closed, or belongs to the parent of this process."""
        return self._refusal is not None

    def check(self) -> None:
        """Raise `ConsumerClosed` or `ForkedConsumer` where it cannot be used."""
        if self._refusal is not None:
            raise self._refusal

    def end(self) -> None:
        """Refuse all use from now on: the consumer is closed."""
        self._refusal = self._refusal or ConsumerClosed(self._message)

    def abandon_after_fork(self) -> None:
        """Refuse all use; called in the child of a fork."""
        self._refusal = ForkedConsumer()
