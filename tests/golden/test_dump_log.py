"""Dumps of genuine segments equal those of the genuine tool line for line."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.logs import flip_bit
from zkbroker.admin.dump_log import DumpOptions, dump_log

SEGMENTS = Path(__file__).parent / "data" / "segments"
LOGS_230 = sorted((SEGMENTS / "kafka-2.3.0").glob("*/*.log"))
LOGS_082 = sorted((SEGMENTS / "kafka-0.8.2.2").glob("*/*.log"))
FULL = DumpOptions(print_data_log=True, deep_iteration=True)


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem.lstrip('0') or '0'}"


def dump(path: Path, options: DumpOptions = FULL) -> tuple[list[str], list[str]]:
    complaints: list[str] = []
    lines = list(dump_log([path], options, report=complaints.append))
    assert lines[0] == f"Dumping {path}"
    return lines[1:], complaints


@pytest.mark.parametrize("log", LOGS_230, ids=name)
def test_dump_of_2_3_0_segment_equals_genuine_dump(log):
    lines, complaints = dump(log)
    genuine = log.with_suffix(".dump.txt").read_text("utf-8").splitlines()
    assert lines == genuine
    assert complaints == []


# The tool of 0.8.2.2 printed one line per message, inside a wrapper with the wrapper's position.
LINE_082 = re.compile(
    r"offset: (\d+) position: (\d+) isvalid: (\w+) payloadsize: (-?\d+) magic: (\d) "
    r"compresscodec: NoCompressionCodec crc: (\d+)(?: keysize: (\d+) key: (.*?))? payload: (.*)"
)
LINE_230 = re.compile(
    r"\| offset: (\d+) NoTimestampType: -1 keysize: (-?\d+) valuesize: (-?\d+) crc: (\d+) "
    r"isvalid: (\w+)(?: key: (.*?))? payload: (.*)"
)


@pytest.mark.parametrize("log", LOGS_082, ids=name)
def test_dump_of_0_8_2_2_segment_has_values_of_genuine_dump(log):
    genuine = log.with_suffix(".dump.txt").read_text("utf-8").splitlines()
    wanted = []
    for line in genuine[1:]:
        found = LINE_082.fullmatch(line)
        assert found, line
        offset, position, valid, size, _, crc, key_size, key, payload = found.groups()
        wanted.append((offset, position, valid, key_size or "-1", size, crc, key, payload))
    lines, complaints = dump(log)
    got = []
    position = magic = ""
    for line in lines[1:]:
        if line.startswith("offset: "):
            position = re.search(r" position: (\d+) ", line)[1]
            magic = re.search(r" magic: (\d) ", line)[1]
            continue
        found = LINE_230.fullmatch(line)
        assert found, line
        offset, key_size, size, crc, valid, key, payload = found.groups()
        got.append((offset, position, valid, key_size, size, crc, key, payload))
    assert magic in ("", "0")
    assert got == wanted
    assert complaints == []


@pytest.mark.parametrize(
    "index",
    [p for s in ("*.index", "*.timeindex") for p in sorted(SEGMENTS.glob(f"*/*/{s}"))],
    ids=lambda p: f"{name(p)}{p.suffix}",
)
def test_genuine_index_agrees_with_its_log(index):
    lines, complaints = dump(index)
    width = 8 if index.suffix == ".index" else 12
    assert len(lines) == index.stat().st_size // width
    assert complaints == []
    assert dump(index, DumpOptions(verify_index_only=True)) == ([], [])
    sane = DumpOptions(index_sanity_check=True)
    assert dump(index, sane) == ([f"{index} passed sanity check."], [])


def test_wrong_index_entry_is_reported(tmp_path):
    source = SEGMENTS / "kafka-2.3.0" / "g-v2-access-0" / f"{0:020d}"
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source.with_suffix(suffix), tmp_path)
    index = tmp_path / f"{0:020d}.index"
    flip_bit(index, 2, 0x64)
    _, complaints = dump(index)
    assert complaints[0] == f"Mismatches in :{index}"
    assert len(complaints) == 2
    times = tmp_path / f"{0:020d}.timeindex"
    flip_bit(times, 19)
    _, complaints = dump(times)
    assert complaints[0] == f"Found timestamp mismatch in :{times}"


def test_producer_snapshots_are_read():
    for snapshot in sorted(SEGMENTS.glob("*/*/*.snapshot")):
        assert dump(snapshot) == ([], [])


def test_damage_is_reported_and_remaining_entries_are_dumped(tmp_path):
    source = SEGMENTS / "kafka-2.3.0" / "g-v1-none-0" / f"{0:020d}.log"
    whole, _ = dump(source)
    damaged = bytearray(source.read_bytes())
    damaged[50] ^= 1
    path = tmp_path / source.name
    path.write_bytes(damaged + b"\x00" * 5)
    lines, _ = dump(path)
    assert lines[1].endswith("isvalid: false")
    assert lines[3:-1] == whole[3:]
    assert lines[-1] == f"Found 5 invalid bytes at the end of {path.name}"


def test_entry_above_max_message_size_ends_dump():
    source = SEGMENTS / "kafka-2.3.0" / "g-v2-gzip-0" / f"{0:020d}.log"
    lines, complaints = dump(source, DumpOptions(max_message_size=100))
    assert lines == [
        "Starting offset: 0",
        f"Found {source.stat().st_size} invalid bytes at the end of {source.name}",
    ]
    assert "max-message-size" in complaints[0]


def test_dump_without_deep_iteration_prints_only_entries():
    source = SEGMENTS / "kafka-2.3.0" / "g-v2-gzip-0" / f"{0:020d}.log"
    lines, _ = dump(source, DumpOptions())
    assert [line[:12] for line in lines] == ["Starting off", "baseOffset: "]
