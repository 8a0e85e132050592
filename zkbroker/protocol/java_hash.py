"""`String.hashCode` of Java, which decides where things go.

Invariant: equal to the JVM's for every text. The partitions of the Scala producer, the partition of
`__consumer_offsets` that a group belongs to, and the order in which round robin deals partitions
all follow from it, so that members in Python and on a JVM agree.
"""


def string_hash(text: str) -> int:
    """Return the hash of a text over its UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
