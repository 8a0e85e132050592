"""Whether a consumer can be used: until it is closed, and in the process that made it."""

from zkbroker.consumer.fetching.messages import ConsumerClosed, ForkedConsumer
from zkbroker.runtime.forks import abandon_in_child


class Usable:
    """A consumer's own word on whether it can be used.

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
        """Refuse from now on: the consumer is closed."""
        self._refusal = self._refusal or ConsumerClosed(self._message)

    def abandon_after_fork(self) -> None:
        """Refuse; called in the child of a fork."""
        self._refusal = ForkedConsumer()
