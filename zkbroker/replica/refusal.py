"""Which requests of controllers are not obeyed, and what of them is not believed.

Invariant: what is refused is told once, as a warning; who repeats it does not fill the log.
"""

import logging

from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol.messages import LeaderAndIsrRequest, StopReplicaRequest
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.soundness import check_decision

logger = logging.getLogger(__name__)


class ControllerRefusal:
    """Looks at requests before they are carried out.

    Args:
        fence: which controller is obeyed.
    """

    def __init__(self, fence: ControllerFence) -> None:
        self._fence = fence
        self._told = ""

    def of(self, request: LeaderAndIsrRequest | StopReplicaRequest, connection: int) -> ErrorCode:
        """Why a request that came through a connection is not to be obeyed; NONE where it is."""
        try:
            self._fence.check(
                request.controller_id, request.controller_epoch, request.broker_epoch, connection
            )
        except ProtocolError as error:
            name = type(request).__name__.removesuffix("Request")
            self._tell(name, request.controller_id, error)
            return error.code
        return ErrorCode.NONE

    def parted(
        self, controller_id: int, told: list[tuple[str, LeaderAndIsrPartition]]
    ) -> tuple[list[tuple[str, LeaderAndIsrPartition]], dict[tuple[str, int], ErrorCode]]:
        """Part what a controller can say from nonsense, which is refused and named in one line.

        A name that no directory can have would be taken for a failure of the disk.
        """
        sound: list[tuple[str, LeaderAndIsrPartition]] = []
        codes: dict[tuple[str, int], ErrorCode] = {}
        why = ""
        for topic, state in told:
            try:
                check_decision(topic, state)
            except ZkbrokerError as error:
                codes[topic, state.partition] = ErrorCode.INVALID_REQUEST
                why = why or str(error)
            else:
                sound.append((topic, state))
        if codes:
            self._tell("LeaderAndIsr", controller_id, f"partitions={len(codes)} first={why}")
        return sound, codes

    def _tell(self, api: str, controller_id: int, reason: object) -> None:
        """Warn of a refused request once; who repeats it does not fill the log."""
        said = f"{api} {controller_id} {reason}"
        again, self._told = said == self._told, said
        logger.log(
            logging.DEBUG if again else logging.WARNING,
            "%s refused controller=%d %s",
            api,
            controller_id,
            reason,
        )
