"""Data directories of genuine 0.7.2 brokers are read, recovered and left as they were."""

import shutil
from contextlib import closing

import pytest

from tests.support.legacy07 import open_logs, read, readings, same_payload, unpack
from tests.support.recorded_frames import case
from zkbroker.records.legacy07 import entries, messages, whole_bytes

MORE = "kafka-0.7.2-more"
SEGMENTS = readings("segments")
RECOVERED = readings("recovered")
WIRE = readings("wire")


def sizes(directory):
    return {
        f"{path.parent.name}/{path.name}": path.stat().st_size
        for path in directory.rglob("*.kafka")
    }


def assert_read_alike(logs, reading):
    """Check that every fetch of the Java consumer gets the same messages and next offsets."""
    log = logs.get(reading.topic, reading.partition)
    with case(f"{log.directory.name} with {len(reading.fetches)} fetches"):
        assert log.offsets(-2, 1) == reading.earliest
        assert log.offsets(-1, 1) == reading.latest
        assert log.offsets(-1, 100) == reading.starts
        for fetch in reading.fetches:
            data = read(log, fetch.offset, fetch.max_bytes)
            assert len(data) == fetch.size - 2
            assert whole_bytes(data) == fetch.valid
            found = [(m.next_offset, m.magic, m.crc) for m in messages(data, fetch.offset)]
            assert found == [row[:3] for row in fetch.messages]
            for message, row in zip(messages(data, fetch.offset), fetch.messages, strict=True):
                assert same_payload(row[3], message.payload)


def test_recorded_readings_are_complete():
    counts = [
        sum(len(fetch.messages) for each in found for fetch in each.fetches)
        for found in (SEGMENTS, RECOVERED, WIRE)
    ]
    assert counts == [1180, 349, 188]


def test_cleanly_stopped_directory_gives_genuine_reads(tmp_path):
    with closing(open_logs(unpack(tmp_path, f"{MORE}/clean-stop"))) as logs:
        assert logs.cuts == []
        for reading in SEGMENTS:
            assert_read_alike(logs, reading)


def test_logs_of_recorded_frames_give_genuine_reads(tmp_path):
    directory = unpack(tmp_path, f"{MORE}/wire")
    # The longest reading of a partition comes first, since a file can only be cut.
    for reading in sorted(WIRE, key=lambda each: each.latest, reverse=True):
        path = directory / f"{reading.topic}-{reading.partition}" / f"{0:020d}.kafka"
        with path.open("r+b") as file:
            file.truncate(reading.latest[0])  # its length when it was read
        with closing(open_logs(directory)) as logs:
            assert_read_alike(logs, reading)


def test_torn_directory_is_recovered_like_genuine_broker(tmp_path):
    torn = unpack(tmp_path, f"{MORE}/killed-torn")
    genuine = unpack(tmp_path, f"{MORE}/recovered")
    before = {path: path.read_bytes() for path in torn.rglob("*.kafka")}
    with closing(open_logs(torn)) as logs:
        assert sizes(torn) == sizes(genuine)
        for path in genuine.rglob("*.kafka"):
            assert (torn / path.relative_to(genuine)).read_bytes() == path.read_bytes()
        assert len(logs.cuts) == 7
        for cut in logs.cuts:
            assert cut.kept_in.read_bytes() == before[cut.file][cut.position :]
        behind = {cut.file.parent.name: cut.valid_messages_behind for cut in logs.cuts}
        assert behind.pop("g07s-mid-0") == 8
        assert set(behind.values()) == {0}
        for reading in RECOVERED:
            assert_read_alike(logs, reading)


def test_directory_can_be_returned_to_genuine_broker(tmp_path):
    directory = unpack(tmp_path, f"{MORE}/clean-stop")
    copy = shutil.copytree(directory, tmp_path / "copy")
    logs = open_logs(directory)
    assert not (directory / ".kafka_cleanshutdown").exists()
    logs.close()
    assert (directory / ".kafka_cleanshutdown").read_bytes() == b""
    assert sizes(directory) == sizes(copy)
    # A set appended here can be read after another clean stop.
    logs = open_logs(directory, flush_messages=1)
    log = logs.get("g07s", 0)
    end = log.end
    sent = read(log, 0, 219)
    log.append(sent, 6)
    logs.close()
    logs = open_logs(directory)
    assert read(logs.get("g07s", 0), end, 10_000) == sent
    logs.close()
    assert sorted(path.name for path in directory.iterdir() if path.is_file()) == [
        ".kafka_cleanshutdown",
        ".lock",
    ]


@pytest.mark.parametrize("name", ["kafka-0.7.2", f"{MORE}/wire", f"{MORE}/mirror-target"])
def test_genuine_entries_are_complete_with_valid_crc(tmp_path, name):
    for path in unpack(tmp_path, name).rglob("*.kafka"):
        data = path.read_bytes()
        found = list(entries(data))
        assert found[-1].end == len(data)
        assert all(entry.valid for entry in found)
