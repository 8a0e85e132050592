"""Our append stores the sets that a genuine broker received byte for byte as it did."""

from pathlib import Path

import pytest

from zkbroker.records import AppendPolicy, decode_entry, iter_entries, prepare_append, set_offsets
from zkbroker.records.entries import seal_batch

SEGMENTS = Path(__file__).parent / "data" / "segments" / "kafka-2.3.0"
LOGS = sorted(SEGMENTS.glob("*/*.log"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem.lstrip('0') or '0'}"


def as_sent(data: bytes) -> bytearray:
    """Undo what the broker assigned: offsets begin at 0 in each request, without leader epoch."""
    sent = bytearray(data)
    for entry in iter_entries(data):
        if entry.magic == 2:
            set_offsets(sent, entry.position, 0, -1)
            if entry.timestamp_type == 1:
                newest = max(r.timestamp for r in decode_entry(unstamped(sent, entry), entry))
                sent[entry.position + 35 : entry.position + 43] = newest.to_bytes(8, "big")
                seal_batch(memoryview(sent)[entry.position : entry.position + entry.size])
        elif entry.magic == 1 or not entry.codec:
            sent[entry.position : entry.position + 8] = bytes(8)
    return sent


def unstamped(sent: bytearray, entry) -> bytearray:
    sent[entry.position + 22] &= ~8
    return sent


# The broker converted the first from magic 2; no producer may send the second.
NOT_SENT = ("g-v1-logappend-0", "g-v2-transactional-0")


@pytest.mark.parametrize(
    "log", [path for path in LOGS if path.parent.name not in NOT_SENT], ids=name
)
def test_append_stores_genuine_bytes(log):
    data = log.read_bytes()
    stamped = [entry.max_timestamp for entry in iter_entries(data) if entry.timestamp_type == 1]
    policy = AppendPolicy(timestamp_type=1 if stamped else 0, max_message_bytes=1 << 20)
    now_ms = stamped[0] if stamped else 0
    prepared = prepare_append(as_sent(data), int(log.stem), policy, now_ms)
    assert bytes(prepared.data) == data
