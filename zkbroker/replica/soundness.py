"""What no controller says of a partition, whoever sends it.

Invariant: nonsense is refused before anything of it is believed: a name that no directory can have
would be taken for a failure of the disk, and a partition -1 would be told to clients.
"""

from zkbroker.errors import ProtocolError
from zkbroker.protocol.messages.leader_and_isr import LEADER_DURING_DELETE, LeaderAndIsrPartition
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.registry.topic_rules import MAX_PARTITIONS, check_topic_name


def check_decision(topic: str, state: LeaderAndIsrPartition | UpdateMetadataPartition) -> None:
    """Refuse what no controller decides.

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
