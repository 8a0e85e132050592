"""Java's `String.hashCode`, on which placements depend.

Invariant: equal to the JVM's for every text. The partitions of the Scala producer, the partition of
`__consumer_offsets` for a group, and the round-robin order of partitions depend on it, so that
members in Python and on a JVM agree.
"""


def string_hash(text: str) -> int:
    """Return the hash of a text over its UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
