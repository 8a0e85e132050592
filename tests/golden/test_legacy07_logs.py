"""Data directories that genuine 0.7.2 brokers wrote: read, recovered, and opened again."""

import shutil

import pytest

from tests.support.legacy07 import open_logs, read, readings, same_payload, unpack
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


def assert_read_alike(log, reading):
    """Every fetch of the Java consumer gets the same bytes, messages and next offsets."""
    assert log.offsets(-2, 1) == reading.earliest
    assert log.offsets(-1, 1) == reading.latest
    assert log.offsets(-1, 100) == reading.starts
    for fetch in reading.fetches:
        data = read(log, fetch.offset, fetch.max_bytes)
        assert len(data) == fetch.size - 2
        assert whole_bytes(data) == fetch.valid
        found = list(messages(data, fetch.offset))
        assert len(found) == len(fetch.messages)
        for message, (next_offset, magic, crc, payload) in zip(found, fetch.messages, strict=True):
            assert (message.next_offset, message.magic, message.crc) == (next_offset, magic, crc)
            assert same_payload(payload, message.payload)


def by_name(reading):
    return f"{reading.topic}-{reading.partition}-{len(reading.fetches)}"


def test_the_reports_are_here():
    counts = [
        sum(len(fetch.messages) for each in found for fetch in each.fetches)
        for found in (SEGMENTS, RECOVERED, WIRE)
    ]
    assert counts == [1180, 349, 188]


@pytest.mark.parametrize("reading", SEGMENTS, ids=by_name)
def test_a_cleanly_stopped_directory_is_read_to_the_same_next_offsets(tmp_path, reading):
    logs = open_logs(unpack(tmp_path, f"{MORE}/clean-stop"))
    try:
        assert_read_alike(logs.get(reading.topic, reading.partition), reading)
        assert logs.cuts == []
    finally:
        logs.close()


@pytest.mark.parametrize("reading", WIRE, ids=by_name)
def test_the_logs_behind_the_recorded_frames_are_read_to_the_same_next_offsets(tmp_path, reading):
    directory = unpack(tmp_path, f"{MORE}/wire")
    path = directory / f"{reading.topic}-{reading.partition}" / f"{0:020d}.kafka"
    with path.open("r+b") as file:
        file.truncate(reading.latest[0])  # what was there when it was read
    logs = open_logs(directory)
    try:
        assert_read_alike(logs.get(reading.topic, reading.partition), reading)
    finally:
        logs.close()


@pytest.mark.parametrize("reading", RECOVERED, ids=by_name)
def test_a_torn_directory_is_recovered_to_what_the_genuine_broker_made_of_it(tmp_path, reading):
    torn = unpack(tmp_path, f"{MORE}/killed-torn")
    genuine = unpack(tmp_path, f"{MORE}/recovered")
    before = {path: path.read_bytes() for path in torn.rglob("*.kafka")}
    logs = open_logs(torn)
    try:
        assert sizes(torn) == sizes(genuine)
        for path in genuine.rglob("*.kafka"):
            assert (torn / path.relative_to(genuine)).read_bytes() == path.read_bytes()
        assert len(logs.cuts) == 7
        for cut in logs.cuts:
            assert cut.kept_in.read_bytes() == before[cut.file][cut.position :]
        behind = {cut.file.parent.name: cut.valid_messages_behind for cut in logs.cuts}
        assert behind.pop("g07s-mid-0") == 8
        assert set(behind.values()) == {0}
        assert_read_alike(logs.get(reading.topic, reading.partition), reading)
    finally:
        logs.close()


def test_a_directory_goes_back_as_it_came(tmp_path):
    directory = unpack(tmp_path, f"{MORE}/clean-stop")
    copy = shutil.copytree(directory, tmp_path / "copy")
    logs = open_logs(directory)
    assert not (directory / ".kafka_cleanshutdown").exists()
    logs.close()
    assert (directory / ".kafka_cleanshutdown").read_bytes() == b""
    assert sizes(directory) == sizes(copy)
    # A genuine broker reads on where a set of ours was appended.
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
def test_every_entry_is_whole_and_its_crc_right(tmp_path, name):
    for path in unpack(tmp_path, name).rglob("*.kafka"):
        data = path.read_bytes()
        found = list(entries(data))
        assert found[-1].end == len(data)
        assert all(entry.valid for entry in found)
