"""Keys of a mirror's messages in its own topics of the target: one partition of a source each.

    {"source": ID, "topic": T, "partition": P}

Invariant: whatever such a topic contains, parsing a key returns its partition or None. A key
    without a partition is another program's.
"""

import json

from zkbroker.registry.node_json import read_json
from zkbroker.types import PartitionKey


def encode_key(source: str, partition: PartitionKey) -> bytes:
    """Return the key of one partition of a source."""
    return json.dumps({"source": source, "topic": partition[0], "partition": partition[1]}).encode()


def parse_key(key: bytes | None, source: str) -> PartitionKey | None:
    """Return the partition in a key; None for a key of another source or program."""
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
    """Return the offset under a name in a value, or None."""
    try:
        offset = read_json(value)[name]
    except (ValueError, TypeError, KeyError):
        return None
    return offset if type(offset) is int and 0 <= offset < 2**63 else None
