"""Which controller requests this broker carries out: valid states from the elected controller.

Invariant: the highest controller epoch ever seen only grows. These requests change nothing:
- a request of a lower controller epoch, or one meant for an earlier registration of this broker;
- a request of an epoch in which no controller was elected: if it were believed, this broker would
  refuse the elected one;
- a request that came through a connection which its controller has replaced: it was sent again
  through the later one, and may be out of date, such as a decision for a topic since deleted.
An invalid state is refused before any part of it is used: a topic name that no directory can have
would look like a failed disk, and a partition -1 would reach clients. A refusal is logged once as a
warning, so that a controller that repeats itself does not fill the log.
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
        broker_epoch: returns the ZooKeeper transaction id of this broker's registration, None
            before it registered.
        elected: returns whether a controller was elected in an epoch or in a later one; called for
            epochs above the highest seen. None means that ZooKeeper did not answer: the epoch is
            then believed.
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
        """Accept a request and remember its controller, or refuse it.

        Args:
            controller_id: of the sender.
            controller_epoch: of its election.
            broker_epoch: the registration that the request is meant for; -1 for any.
            connection: which connection it came through; later ones have greater numbers. A
                controller uses one at a time.

        Raises:
            ProtocolError: the controller was deposed or has replaced the connection (11); the
                registration is an earlier one (77), or unknown to this broker (-1); or no
                controller was elected in the epoch (-1).
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
        if controller_epoch > self.controller_epoch and self._elected(controller_epoch) is False:
            raise ProtocolError(f"no controller was elected in epoch {controller_epoch}")
        # A later controller may have been obeyed while ZooKeeper was asked.
        if controller_epoch < self.controller_epoch:
            raise ProtocolError(
                f"controller epoch {controller_epoch} is over: it is {self.controller_epoch}",
                code=ErrorCode.STALE_CONTROLLER_EPOCH,
            )
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
    """Return topic and state of every partition in a request of any version."""
    if request.topic_states:
        return [
            (each.topic, state) for each in request.topic_states for state in each.partition_states
        ]
    return [(state.topic, state) for state in request.partition_states]


def check_decision(
    topic: str, state: LeaderAndIsrPartition | UpdateMetadataPartition, *, known: bool = False
) -> None:
    """Refuse a state that no controller can have decided.

    Args:
        topic: its name, which is not checked again for a known partition.
        state: of one of its partitions.
        known: whether an earlier request named the partition.

    Raises:
        ZkbrokerError: the state is invalid.
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
    """Checks requests before they are carried out."""

    def __init__(self, fence: ControllerFence) -> None:
        self._fence = fence
        self._last_warning = ""

    def of(self, request: LeaderAndIsrRequest | StopReplicaRequest, connection: int) -> ErrorCode:
        """Return the code that refuses a request of a connection, NONE when it is accepted."""
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
        """Return the valid states, and an error code for each invalid one.

        Args:
            controller_id: of the sender.
            states: each with its topic.
            known: the partitions that earlier requests named.
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
        """Log a warning of a refused request, once for the same reason."""
        said = f"{api} {controller_id} {reason}"
        again, self._last_warning = said == self._last_warning, said
        logger.log(
            logging.DEBUG if again else logging.WARNING,
            "%s refused controller=%d %s",
            api,
            controller_id,
            reason,
        )
