"""Append to the log against a bare loop: buffer -> CRC-32C -> os.write.

    python -m bench.log_append [--seconds 0.5] [--rounds 7] [--directory DIR]

Both get the same batches in a receive buffer that was filled before (the socket is not measured),
both write to files in the same directory, and their rounds alternate. The log does beside the
bare loop: validation of the batch, its offsets, indexes, rolling, the producers' state. Prints one
JSON object a batch size; `ratio` is the median of the rounds' ratios by the clock, `cpu_ratio` by
CPU time, which a busy machine disturbs less.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.log import LogManager, TopicPartition
from zkbroker.records import MessageSetBuilder, crc32c

CRC_FROM = 21
HEADER_BYTES = 61
RECORD_BYTES = 109


def batch_of(size: int) -> bytes:
    """Return a magic-2 batch of about `size` bytes, of 100-byte values."""
    builder = MessageSetBuilder(2)
    for _ in range((size - HEADER_BYTES) // RECORD_BYTES):
        builder.append(None, b"x" * 100, 1_700_000_000_000)
    return builder.build()


def timed(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Return bytes a second, by the clock and of CPU."""
    done = 0
    started, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        for _ in range(8):
            done += work()
    return done / (time.perf_counter() - started), done / (time.process_time() - cpu)


def measure(directory: Path, size: int, seconds: float, rounds: int) -> dict[str, float]:
    """Alternate the two loops over one batch size."""
    data = batch_of(size)
    buffer = bytearray(data)
    view = memoryview(buffer)
    manager = LogManager(
        LogManagerConfig(log_dirs=(str(directory / "log"),)),
        LogConfig(segment_bytes=256 << 20, retention_bytes=-1, max_message_bytes=8 << 20),
    )
    manager.start()
    log = manager.get_or_create(TopicPartition("bench", 0))
    bare_path = directory / "bare"

    def bare_loop() -> Callable[[], int]:
        fd = os.open(bare_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

        def work() -> int:
            view[: len(data)] = data
            crc32c(view[CRC_FROM:])
            return os.write(fd, view)

        bare_loop.fd = fd  # type: ignore[attr-defined]
        return work

    def log_loop() -> int:
        # The receive buffer is filled anew each time, as from a socket.
        view[: len(data)] = data
        return log.append_as_leader(view, leader_epoch=0).size_bytes

    ratios: list[float] = []
    cpu_ratios: list[float] = []
    rates: dict[str, list[float]] = {"bare": [], "log": []}
    for _ in range(rounds):
        bare, bare_cpu = timed(bare_loop(), seconds)
        os.close(bare_loop.fd)  # type: ignore[attr-defined]
        bare_path.unlink()
        appended, appended_cpu = timed(log_loop, seconds)
        log.roll()
        log.advance_start_to(log.log_end_offset)
        for path in log.path.glob("*.deleted"):
            path.unlink()
        ratios.append(appended / bare)
        cpu_ratios.append(appended_cpu / bare_cpu)
        rates["bare"].append(bare)
        rates["log"].append(appended)
    manager.abandon()
    return {
        "batch_bytes": len(data),
        "bare_mb_s": round(statistics.median(rates["bare"]) / 1e6, 1),
        "log_mb_s": round(statistics.median(rates["log"]) / 1e6, 1),
        "log_batches_s": round(statistics.median(rates["log"]) / len(data)),
        "ratio": round(statistics.median(ratios), 3),
        "cpu_ratio": round(statistics.median(cpu_ratios), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16 << 10, 1 << 20])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for number, size in enumerate(options.sizes):
            work = Path(directory) / str(number)
            work.mkdir()
            print(json.dumps(measure(work, size, options.seconds, options.rounds)))


if __name__ == "__main__":
    main()
