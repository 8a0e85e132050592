"""Which requests of controllers are refused, as a whole or for some of their partitions.

Invariant: an invalid state is refused before anything of it is used: a name that no directory can
have would be taken for a failure of the disk, and a partition -1 would reach clients. A refusal is
logged once as a warning; a controller that repeats itself does not fill the log.
"""

import logging

from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol.messages import LeaderAndIsrRequest, StopReplicaRequest
from zkbroker.protocol.messages.leader_and_isr import LEADER_DURING_DELETE, LeaderAndIsrPartition
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.registry.topic_rules import MAX_PARTITIONS, check_topic_name
from zkbroker.replica.fencing import ControllerFence

logger = logging.getLogger(__name__)


def check_decision(topic: str, state: LeaderAndIsrPartition | UpdateMetadataPartition) -> None:
    """Refuse a state that no controller decides.

    Raises:
        ZkbrokerError: it says why.
    """
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
        self, controller_id: int, states: list[tuple[str, LeaderAndIsrPartition]]
    ) -> tuple[list[tuple[str, LeaderAndIsrPartition]], dict[tuple[str, int], ErrorCode]]:
        """Return the valid states, and a code for each that no controller can decide.

        A name that no directory can have would be taken for a failure of the disk.
        """
        valid: list[tuple[str, LeaderAndIsrPartition]] = []
        codes: dict[tuple[str, int], ErrorCode] = {}
        why = ""
        for topic, state in states:
            try:
                check_decision(topic, state)
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
