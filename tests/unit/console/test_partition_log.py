"""Segments are shown from files that their broker changes meanwhile."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from zkbroker.console import partition_log
from zkbroker.console.partition_log import segments_of
from zkbroker.log.names import file_name
from zkbroker.records import encode_message_set

FIRST = file_name(0, ".log")


def batch(offset, size=10_000):
    return encode_message_set([(None, b"x" * size, 1000 + offset, ())], base_offset=offset)


def test_segments_show_their_entries(tmp_path):
    (tmp_path / FIRST).write_bytes(batch(0) + batch(1))
    (tmp_path / file_name(2, ".log")).write_bytes(batch(2) + batch(3)[:100])
    found = segments_of(tmp_path)
    assert [(each["base_offset"], each["records"], each["active"]) for each in found] == [
        (0, 2, False),
        (2, 1, True),
    ]
    assert [(each["first_time_ms"], each["last_time_ms"]) for each in found] == [
        (1000, 1001),
        (1002, 1002),
    ]


def test_file_that_is_cut_while_it_is_read_ends_nothing(tmp_path):
    path = tmp_path / FIRST
    path.write_bytes(b"".join(batch(offset) for offset in range(5)))
    # In a process of its own, which the access to bytes behind the end of a mapped file would end.
    text = f"""
        import os
        from pathlib import Path
        from zkbroker.console import partition_log

        name_of = partition_log.codec_name

        def cut(codec):
            os.truncate({str(path)!r}, 0)
            return name_of(codec)

        partition_log.codec_name = cut
        print(len(partition_log.segments_of(Path({str(tmp_path)!r}))))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_file_that_is_replaced_after_it_was_opened_is_read_as_it_was(tmp_path, monkeypatch):
    path, compacted = tmp_path / FIRST, tmp_path / "compacted"
    path.write_bytes(batch(0))
    compacted.write_bytes(batch(0) + batch(1) + batch(2))
    real = Path.open

    def replaced(self, *args):
        opened = real(self, *args)
        compacted.replace(path)
        return opened

    monkeypatch.setattr(Path, "open", replaced)
    (found,) = segments_of(tmp_path)
    assert (found["records"], found["bytes"]) == (1, len(batch(0)))


@pytest.mark.parametrize(("largest", "records"), [(10_000, None), (100_000, 3)])
def test_entry_larger_than_a_read_is_read_up_to_a_limit(tmp_path, monkeypatch, largest, records):
    monkeypatch.setattr(partition_log, "_BLOCK_BYTES", 4096)
    monkeypatch.setattr(partition_log, "MAX_ENTRY_BYTES", largest)
    (tmp_path / FIRST).write_bytes(batch(0, 10) + batch(1, 50_000) + batch(2, 10))
    (found,) = segments_of(tmp_path)
    assert found["records"] == records


def test_time_limit_ends_a_walk_within_a_segment(tmp_path, monkeypatch):
    (tmp_path / FIRST).write_bytes(batch(0) + batch(1))
    times = iter([0.0, 0.0, 0.0])
    monkeypatch.setattr(partition_log.time, "monotonic", lambda: next(times, os.EX_SOFTWARE))
    (found,) = segments_of(tmp_path)
    assert (found["records"], found["formats"]) == (None, [2])
