"""ControlledShutdown (7): a broker that is about to stop asks the controller to move its leaders.

The header of version 0 has no client id. Version 2 adds the epoch of the broker that stops.
"""

from zkbroker.protocol.messages.leader_and_isr import NO_BROKER_EPOCH
from zkbroker.protocol.schema import Request, array, int16, int32, int64, string, wire_message


@wire_message
class ControlledShutdownRequest(Request):
    broker_id: int = int32()
    broker_epoch: int = int64(since=2, default=NO_BROKER_EPOCH)


@wire_message
class RemainingPartition:
    topic: str = string()
    partition: int = int32()


@wire_message
class ControlledShutdownResponse:
    """Args: partitions_remaining: those that it still leads; with none and no error it may stop."""

    error_code: int = int16()
    partitions_remaining: list[RemainingPartition] = array(RemainingPartition)
