"""Whether a request of a controller is to be obeyed.

Invariant: the highest controller epoch ever seen only grows; a request of a lower one, or one that
was meant for an earlier registration of this broker, changes nothing. Nor does one of an epoch in
which no controller was elected: believed, it would make this broker deaf to the elected one. Nor
does one that came through a connection which its controller has left for a later one: it was sent
again through that, and says what may be long over, such as that a deleted topic be there.
"""

from collections.abc import Callable

from zkbroker.errors import ErrorCode, ProtocolError

NO_BROKER_EPOCH = -1
ONLY_CONNECTION = 0


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
        self._connection = ONLY_CONNECTION

    def check(
        self,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        connection: int = ONLY_CONNECTION,
    ) -> None:
        """Let a request pass, and remember its controller.

        Args:
            controller_id: of the sender.
            controller_epoch: of its election.
            broker_epoch: the registration it is meant for; -1 for any.
            connection: which connection it came through; later ones have greater numbers. A
                controller uses one at a time.

        Raises:
            ProtocolError: it is of a deposed controller or came through a connection that was left
                (11), for an earlier registration (77), for one that this broker knows nothing of,
                or of no elected controller (-1).
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
            if controller_epoch == self.controller_epoch and connection < self._connection:
                raise ProtocolError(
                    f"the controller of epoch {controller_epoch} has left this connection",
                    code=ErrorCode.STALE_CONTROLLER_EPOCH,
                )
            self.controller_epoch = controller_epoch
            self.controller_id = controller_id
            self._connection = connection
