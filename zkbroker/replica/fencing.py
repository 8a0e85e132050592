"""Which requests of controllers are carried out: of the elected one, and what it can decide.

Invariant: the highest controller epoch ever seen only grows; a request of a lower one, or one that
was meant for an earlier registration of this broker, changes nothing. Nor does one of an epoch in
which no controller was elected: believed, it would make this broker deaf to the elected one. Nor
does one that came through a connection which its controller has left for a later one: it was sent
again through that, and says what may be long over, such as that a deleted topic be there. An
invalid state is refused before anything of it is used: a name that no directory can have would be
taken for a failure of the disk, and a partition -1 would reach clients. A refusal is logged once as
a warning; a controller that repeats itself does not fill the log.
"""

import logging
from collections.abc import Callable, Container
from typing import overload

from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol.messages import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkbroker.protocol.messages.leader_and_isr import LEADER_DURING_DELETE, LeaderAndIsrPartition
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.registry.topic_rules import MAX_PARTITIONS, check_topic_name

logger = logging.getLogger(__name__)

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


@overload
def states_in(request: LeaderAndIsrRequest) -> list[tuple[str, LeaderAndIsrPartition]]: ...
@overload
def states_in(request: UpdateMetadataRequest) -> list[tuple[str, UpdateMetadataPartition]]: ...
def states_in(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> object:
    """Return topic and state of every partition that a request names, whichever version it is."""
    if request.topic_states:
        return [
            (each.topic, state) for each in request.topic_states for state in each.partition_states
        ]
    return [(state.topic, state) for state in request.partition_states]


def check_decision(
    topic: str, state: LeaderAndIsrPartition | UpdateMetadataPartition, *, known: bool = False
) -> None:
    """Refuse a state that no controller decides.

    Args:
        topic: its name, which is not checked again where the partition is known.
        state: of one of its partitions.
        known: whether the partition was named before.

    Raises:
        ZkbrokerError: it says why.
    """
    if not known:
        check_topic_name(topic)
    key = f"{topic}-{state.partition}"
    if not 0 <= state.partition < MAX_PARTITIONS:
        raise ProtocolError(f"partition {key}: its number is not in 0 to {MAX_PARTITIONS - 1}")
    if state.leader_epoch < 0 or state.zk_version < 0:
        raise ProtocolError(
            f"partition {key}: leader epoch {state.leader_epoch} or version {state.zk_version} "
            "below 0"
        )
    if state.leader < LEADER_DURING_DELETE or min((*state.replicas, *state.isr), default=0) < 0:
        raise ProtocolError(
            f"partition {key}: leader {state.leader}, replicas {state.replicas} or in sync "
            f"{state.isr} cannot be brokers"
        )


class ControllerRefusal:
    """Looks at requests before they are carried out.

    Args:
        fence: which controller is obeyed.
    """

    def __init__(self, fence: ControllerFence) -> None:
        self._fence = fence
        self._said = ""

    def of(self, request: LeaderAndIsrRequest | StopReplicaRequest, connection: int) -> ErrorCode:
        """Return why a request is refused that came through a connection; NONE where it is not."""
        try:
            self._fence.check(
                request.controller_id, request.controller_epoch, request.broker_epoch, connection
            )
        except ProtocolError as error:
            name = type(request).__name__.removesuffix("Request")
            self._warn(name, request.controller_id, error)
            return error.code
        return ErrorCode.NONE

    def validated(
        self,
        controller_id: int,
        states: list[tuple[str, LeaderAndIsrPartition]],
        known: Container[tuple[str, int]] = (),
    ) -> tuple[list[tuple[str, LeaderAndIsrPartition]], dict[tuple[str, int], ErrorCode]]:
        """Return the valid states, and a code for each that no controller can decide.

        Args:
            controller_id: of the sender.
            states: each with its topic.
            known: the partitions that were named before.
        """
        valid: list[tuple[str, LeaderAndIsrPartition]] = []
        codes: dict[tuple[str, int], ErrorCode] = {}
        why = ""
        for topic, state in states:
            try:
                check_decision(topic, state, known=(topic, state.partition) in known)
            except ZkbrokerError as error:
                codes[topic, state.partition] = ErrorCode.INVALID_REQUEST
                why = why or str(error)
            else:
                valid.append((topic, state))
        if codes:
            self._warn("LeaderAndIsr", controller_id, f"partitions={len(codes)} first={why}")
        return valid, codes

    def _warn(self, api: str, controller_id: int, reason: object) -> None:
        """Warn of a refused request once."""
        said = f"{api} {controller_id} {reason}"
        again, self._said = said == self._said, said
        logger.log(
            logging.DEBUG if again else logging.WARNING,
            "%s refused controller=%d %s",
            api,
            controller_id,
            reason,
        )
