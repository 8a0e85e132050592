"""Which partition of `__consumer_offsets` a group belongs to, and with it which broker."""

from zkbroker.protocol.java_hash import string_hash


def group_partition(group_id: str, partitions: int) -> int:
    """The partition that holds a group, as every genuine broker computes it.

    Args:
        group_id: the group's name.
        partitions: how many the offsets topic has.
    """
    value = string_hash(group_id)
    return (0 if value == -0x8000_0000 else abs(value)) % partitions
