"""Open a large log after a clean stop, and look offsets up in it.

    python -m bench.growth --only logs

The log's segments are sparse files: they have the header of every 256 KiB batch, and a hole for its
records, so 10 GB take some 200 MB of disk; a clean start and a lookup read nothing else. Every size
is measured in its own process. Prints one JSON object for each size: seconds of `LogManager.start`,
microseconds a random lookup, by the clock and of CPU (medians of rounds; the first round opens
files), resident megabytes before and after.
"""

import json
import os
import random
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.log import LogManager, TopicPartition
from zkbroker.log.names import file_name
from zkbroker.log.producers.state import ProducerState
from zkbroker.records import MessageSetBuilder

BATCH = 256 << 10
RECORDS = 600
SEGMENT_BYTES = 64 << 20
LOOKUPS = 4000
TP = TopicPartition("bench", 0)


def build(directory: Path, size: int, segment_bytes: int) -> int:
    """Make the log; returns its end offset."""
    builder = MessageSetBuilder(2)
    builder.append(None, b"x", 1_700_000_000_000)
    header = bytearray(builder.build()[:61])
    struct.pack_into(">i", header, 8, BATCH - 12)
    struct.pack_into(">i", header, 23, RECORDS - 1)
    struct.pack_into(">i", header, 57, RECORDS)
    partition = directory / str(TP)
    partition.mkdir(parents=True)
    offset = 0
    for _ in range(size // segment_bytes):
        base = offset
        index, times = bytearray(), bytearray()
        with (partition / file_name(base, ".log")).open("wb") as log:
            for position in range(0, segment_bytes, BATCH):
                struct.pack_into(">q", header, 0, offset)
                os.pwrite(log.fileno(), header, position)
                if position:
                    index += struct.pack(">ii", offset + RECORDS - 1 - base, position)
                offset += RECORDS
            log.truncate(segment_bytes)
        times += struct.pack(">qi", 1_700_000_000_000, 0)
        (partition / file_name(base, ".index")).write_bytes(index)
        (partition / file_name(base, ".timeindex")).write_bytes(times)
    checkpoint = f"0\n1\n{TP.topic} {TP.partition} {offset}\n"
    (directory / "recovery-point-offset-checkpoint").write_text(checkpoint)
    (directory / ".kafka_cleanshutdown").touch()
    (partition / file_name(offset, ".snapshot")).write_bytes(ProducerState().to_snapshot())
    return offset


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def measure(directory: Path, lookups: int) -> None:
    """Open the log that was built in a directory; runs in its own process."""
    before = resident_mb()
    manager = LogManager(LogManagerConfig(log_dirs=(str(directory),)), LogConfig(retention_ms=-1))
    started, cpu = time.perf_counter(), time.process_time()
    manager.start()
    opened, opened_cpu = time.perf_counter() - started, time.process_time() - cpu
    log = manager.get(TP)
    assert log is not None
    chosen = random.Random(1)
    rounds: list[float] = []
    cpu_rounds: list[float] = []
    for _ in range(5):
        offsets = [chosen.randrange(log.log_end_offset) for _ in range(lookups)]
        started, cpu = time.perf_counter(), time.process_time()
        for offset in offsets:
            found = log.read(offset, BATCH, end=log.log_end_offset)
            assert found.slice is not None
            found.slice.close()
        rounds.append((time.perf_counter() - started) / lookups * 1e6)
        cpu_rounds.append((time.process_time() - cpu) / lookups * 1e6)
    print(
        json.dumps(
            {
                "gigabytes": round(log.size_bytes / 1e9, 2),
                "segments": len(log.segments),
                "open_s": round(opened, 4),
                "open_cpu_s": round(opened_cpu, 4),
                "lookup_us": round(statistics.median(rounds), 1),
                "lookup_cpu_us": round(statistics.median(cpu_rounds), 1),
                "first_lookups_us": round(rounds[0], 1),
                "resident_mb_before": round(before, 1),
                "resident_mb_after": round(resident_mb(), 1),
            }
        )
    )
    manager.abandon()


def measured(gigabytes: float) -> dict[str, float]:
    """Build a log of a size and open it in another process; return the output of that."""
    with tempfile.TemporaryDirectory() as work:
        if shutil.disk_usage(work).free < 2e9:
            sys.exit(f"less than 2 GB free in {work}: name another place by TMPDIR")
        build(Path(work), int(gigabytes * 1e9), SEGMENT_BYTES)
        command = [sys.executable, "-m", "bench.log_open", work, str(LOOKUPS)]
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


if __name__ == "__main__":
    measure(Path(sys.argv[1]), int(sys.argv[2]))
