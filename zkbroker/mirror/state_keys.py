"""Keys of what a mirror keeps in topics of the target: a partition of a source each.

    {"source": ID, "topic": T, "partition": P}

Invariant: whatever lies in such a topic, reading a key ends in the partition that it names or in
None. A key that names none cannot be the mirror's own: it is another program's.
"""

from zkbroker.registry.node_json import read_json
from zkbroker.types import PartitionKey


def parse_key(key: bytes | None, source: str) -> PartitionKey | None:
    """Return the partition that a key names; None for a key of another source or program."""
    try:
        name = read_json(key or b"")
        if name["source"] != source:
            return None
        topic, partition = name["topic"], name["partition"]
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(topic, str) or type(partition) is not int:
        return None
    return topic, partition


def parse_offset(value: bytes, name: str) -> int | None:
    """Return an offset that a value holds under a name, None when it holds none."""
    try:
        offset = read_json(value)[name]
    except (ValueError, TypeError, KeyError):
        return None
    return offset if type(offset) is int and 0 <= offset < 2**63 else None
