"""Which partition of `__consumer_offsets` a group belongs to, and with it which broker."""

OFFSETS_TOPIC = "__consumer_offsets"


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def group_partition(group_id: str, partitions: int) -> int:
    """The partition that holds a group, as every genuine broker computes it.

    Args:
        group_id: the group's name.
        partitions: how many the offsets topic has.
    """
    value = java_hash(group_id)
    return (0 if value == -0x8000_0000 else abs(value)) % partitions
