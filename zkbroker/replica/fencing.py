"""Whether a request of a controller is to be obeyed.

Invariant: the highest controller epoch ever seen only grows; a request of a lower one, or one that
was meant for an earlier registration of this broker, changes nothing. Nor does one of an epoch in
which no controller was elected: believed, it would make this broker deaf to the elected one.
"""

from collections.abc import Callable

from zkbroker.errors import ErrorCode, ProtocolError

NO_BROKER_EPOCH = -1


class ControllerFence:
    """Keeps the epoch of the controller that is obeyed.

    Args:
        broker_epoch: returns the transaction in which this broker registered, None before.
        elected: whether a controller was elected in an epoch or in a later one; asked for epochs
            above the highest that was seen. None where ZooKeeper does not say: then it is believed.
    """

    def __init__(
        self,
        broker_epoch: Callable[[], int | None],
        elected: Callable[[int], bool | None] = lambda epoch: None,
    ) -> None:
        self._broker_epoch = broker_epoch
        self._elected = elected
        self.controller_epoch = 0
        self.controller_id = -1

    def check(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Let a request pass, and remember who sent it.

        Args:
            controller_id: who sends it.
            controller_epoch: of its election.
            broker_epoch: the registration it is meant for; -1 for any.

        Raises:
            ProtocolError: it is of a deposed controller (11), for an earlier registration (77), for
                one that this broker knows nothing of, or of no elected controller (-1).
        """
        if broker_epoch != NO_BROKER_EPOCH:
            own = self._broker_epoch()
            if own is not None and broker_epoch < own:
                raise ProtocolError(
                    f"broker epoch {broker_epoch} is over: it is {own}",
                    code=ErrorCode.STALE_BROKER_EPOCH,
                )
            if own is None or broker_epoch > own:
                raise ProtocolError(f"broker epoch {broker_epoch} is not known here: it is {own}")
        if controller_epoch < self.controller_epoch:
            raise ProtocolError(
                f"controller epoch {controller_epoch} is over: it is {self.controller_epoch}",
                code=ErrorCode.STALE_CONTROLLER_EPOCH,
            )
        if controller_epoch > self.controller_epoch and self._elected(controller_epoch) is False:
            raise ProtocolError(f"no controller was elected in epoch {controller_epoch}")
        if controller_epoch >= self.controller_epoch:  # others may have come while that was asked
            self.controller_epoch = controller_epoch
            self.controller_id = controller_id
