"""Recorded requests to a genuine 0.7.2 broker, sent to ours: same bytes, same closed connections.

The recordings are replayed in their order, from an empty directory; the resulting logs equal those
of the genuine broker byte for byte. There is no difference to list.
"""

import os
import struct
import zlib

import pytest

from tests.support.legacy07 import unpack, wire_rows
from tests.support.legacy07_server import Server07
from zkbroker.protocol.legacy07 import MultiProduce07, Offsets07, decode_request, encode_request

ROWS = wire_rows()
PROBE = encode_request(Offsets07("probe", 0, -1, 1))
PROBED = bytes.fromhex("0000000000010000000000000000")
PARTITIONS = {"g07m": 4, "g07g": 4}
MIRRORED = "java 0.7.2 MirrorMaker producer"


def stage(row):
    """Return the place of a row's recording in time."""
    recording = (row.get("connection_id") or "").partition("#")[0]
    return {"console": 1, "console2": 2}.get(recording, 0)


def frame_of(row):
    if row["request"]:
        return bytes.fromhex(row["request"])
    head = bytes.fromhex(row["request_head"])
    frame = head + head[-1:] * (row["request_length"] - len(head))
    assert zlib.crc32(frame) == row["request_crc32"]
    return frame


def recorded_now():
    (row,) = [row for row in ROWS if row["name"] == "OFFSETS by time: now"]
    return decode_request(memoryview(frame_of(row))).time_ms


class Replay:
    """Sends rows to a server and compares."""

    def __init__(self, server, genuine):
        self.server = server
        self.genuine = genuine
        self.client = server.connect()
        self.differences = []
        self.compared = 0
        self.chosen = 0

    def choose(self, count):
        return self.chosen if count > 1 else 0

    def send(self, row):
        frame = frame_of(row)
        if row["partition"] == -1 and row["topic"] == "g07m":
            # The broker chose at random: the file with the message shows its choice.
            paths = [p for p in self.genuine.glob("g07m-*/*.kafka") if frame[18:] in p.read_bytes()]
            (path,) = paths
            self.chosen = int(path.parent.name[-1])
        if "request WITH its length prefix" in (row["note"] or ""):
            self.client.socket.sendall(frame)
        else:
            self.client.send(frame)

    def row(self, row):
        self.send(row)
        expected = bytes.fromhex(row["response"] or "")
        if row["connection"] in ("closed by the broker", "closed by the client"):
            if row["connection"] == "closed by the client" or "shuts its side" in row["name"]:
                self.client.socket.shutdown(1)
            found = self.client.read_to_the_end()
            self.client = self.server.connect()
        elif row["request_type"] in (0, 3):
            # It has no answer, and the next request on the connection has one.
            expected, found = PROBED, self.client.ask(PROBE)
        elif "response_crc32" in row:
            found = self.client.receive()
            whole = struct.pack(">i", len(found)) + found
            expected = (row["response_length"], row["response_crc32"])
            found = {
                size: (size, zlib.crc32(data)) for data in (found, whole) for size in [len(data)]
            }
            found = found.get(row["response_length"])
        else:
            found = self.client.receive()
        self.compared += 1
        if found != expected:
            self.differences.append((row["name"], row["topic"], row["partition"], found, expected))


def test_all_recorded_requests_from_empty_directory(tmp_path):
    genuine = unpack(tmp_path, "kafka-0.7.2-more/wire")
    now = recorded_now()
    replay = None
    with Server07(
        tmp_path / "ours",
        now_ms=lambda: now,
        choose=lambda count: replay.choose(count),
        flush_messages=1,
        topic_partitions=PARTITIONS,
    ) as server:
        replay = Replay(server, genuine)
        for row in sorted(ROWS, key=stage):
            if row["source"] == MIRRORED:
                continue
            if row["name"] == "OFFSETS by time: now":
                for path in (tmp_path / "ours").rglob("*.kafka"):
                    os.utime(path, (now / 1000 - 5, now / 1000 - 5))
            replay.row(row)
    assert replay.differences == []
    assert replay.compared == 486
    found = {
        path.relative_to(genuine): (tmp_path / "ours" / path.relative_to(genuine)).read_bytes()
        for path in genuine.rglob("*.kafka")
    }
    assert found == {path: (genuine / path).read_bytes() for path in found}
    assert len(found) == 11


def test_recorded_reads_of_genuine_directory(tmp_path):
    genuine = unpack(tmp_path, "kafka-0.7.2-more/wire")
    with Server07(genuine, topic_partitions=PARTITIONS) as server:
        replay = Replay(server, genuine)
        for row in ROWS[164:]:
            if row["topic"] in ("g07w", "g07e", "g07m", "g07j") and row["request_type"] in (1, 4):
                replay.row(row)
    assert replay.differences == []
    assert replay.compared > 25


def test_multiproduce_of_genuine_mirror(tmp_path):
    (row,) = [row for row in ROWS if row["source"] == MIRRORED]
    sent = decode_request(memoryview(frame_of(row)))
    assert isinstance(sent, MultiProduce07)
    genuine = unpack(tmp_path, "kafka-0.7.2-more/mirror-target")
    with Server07(tmp_path / "ours", flush_messages=1) as server:
        Replay(server, genuine).row(row)
    for each in sent.sets:
        name = f"{each.topic}-{each.partition}/{0:020d}.kafka"
        assert (tmp_path / "ours" / name).read_bytes() == bytes(each.messages)
        assert bytes(each.messages) in (genuine / name).read_bytes()


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4])
def test_recording_has_every_kind_of_request(kind):
    rows = [
        row
        for row in ROWS
        if row["request_type"] == kind and row["connection"] != "closed by the broker"
    ]
    assert rows
    for row in rows:
        frame = frame_of(row)
        if "trailing" not in row["name"] and "count 1 but" not in row["name"]:
            assert encode_request(decode_request(memoryview(frame))) == frame
