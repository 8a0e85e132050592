"""Speed of the record formats, as ratios of runs that took turns.

    python -m bench.records [--records 50000] [--rounds 7] [--size 100]

Each figure is CPU time, the median over the rounds; compared tasks take turns, so that a busy
machine slows them alike. The bare walk is the yardstick for appends of magic 0 and 1: it reads each
message's size and CRC in a Python loop and computes the CRC, nothing else.
"""

import argparse
import statistics
import struct
import time
from collections.abc import Callable

from isal.isal_zlib import crc32

from zkbroker.records import (
    AppendPolicy,
    Codec,
    crc32c,
    encode_message_set,
    kernels,
    portable,
    prepare_append,
)

END = 2**63 - 1
LIMIT = 1 << 30
POLICY = AppendPolicy(max_message_bytes=LIMIT)
BATCH_RECORDS = 128
HEAD = struct.Struct(">qiI")

Task = Callable[[], object]


def measure(tasks: dict[str, Task], rounds: int) -> dict[str, float]:
    """CPU seconds of each task, the median of so many rounds in turns."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            before = time.process_time()
            task()
            times[name].append(time.process_time() - before)
    return {name: statistics.median(found) for name, found in times.items()}


def bare_walk(data: bytearray) -> None:
    """Only the header walk with CRC, in Python."""
    view = memoryview(data)
    unpack = HEAD.unpack_from
    position = 0
    end = len(data)
    while position < end:
        _, size, crc = unpack(data, position)
        stop = position + 12 + size
        if crc32(view[position + 16 : stop]) != crc:
            raise AssertionError(position)
        position = stop


def decode_all(loops, data: bytes) -> None:
    position = 0
    while True:
        _, reached, _, error = loops.decode_records(data, position, 0, END, True, LIMIT, 1024)
        if error is not None or reached == position:
            return
        position = reached


def show(title: str, found: dict[str, float], records: int, yardstick: str) -> None:
    print(f"\n{title}")
    for name, seconds in found.items():
        ratio = found[yardstick] / seconds
        print(
            f"  {name:34s} {records / seconds / 1e6:8.2f} M records/s  {ratio:7.2f} x {yardstick}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    options = parser.parse_args()
    count, rounds = options.records, options.rounds
    value = bytes(range(32, 127)) * (options.size // 95 + 1)
    value = value[: options.size]
    records = [(b"k%07d" % i, value, 1_500_000_000_000 + i // 50, ()) for i in range(count)]
    pieces = [records[i : i + BATCH_RECORDS] for i in range(0, count, BATCH_RECORDS)]
    twins = {"C": kernels, "Python": portable} if kernels.NATIVE else {"Python": portable}
    print(f"{count} records, 8-byte keys, {options.size}-byte values; C twin: {kernels.NATIVE}")

    for magic in (0, 1):
        keyless = [(None, value, timestamp, ()) for _, _, timestamp, _ in records]
        data = bytearray(encode_message_set(keyless, magic=magic))
        tasks: dict[str, Task] = {"bare walk": lambda data=data: bare_walk(data)}
        for name, loops in twins.items():
            tasks[f"assign_messages, {name}"] = lambda loops=loops, data=data, magic=magic: (
                loops.assign_messages(memoryview(data), 0, magic, 7, LIMIT, -1, END, None)
            )
        tasks["prepare_append"] = lambda data=data: prepare_append(data, 7, POLICY, 0)
        title = (
            f"append: validate and assign offsets, magic {magic}, {len(data) // count} bytes each"
        )
        show(title, measure(tasks, rounds), count, "bare walk")

    for size in (16 * 1024, 1024 * 1024):
        each = len(encode_message_set(records[:1000])) // 1000
        batch = bytearray(
            encode_message_set((records * (size // each // count + 1))[: size // each])
        )
        turns = max(1, 32 * 1024 * 1024 // size)
        found = measure(
            {
                "crc32c": lambda b=batch, n=turns: [crc32c(memoryview(b)[21:]) for _ in range(n)],
                "prepare_append": lambda b=batch, n=turns: [
                    prepare_append(b, 7, POLICY, 0) for _ in range(n)
                ],
            },
            rounds,
        )
        print(f"\nappend of one magic-2 batch of {len(batch)} bytes")
        for name, seconds in found.items():
            print(
                f"  {name:34s} {seconds / turns * 1e6:8.2f} us  "
                f"{len(batch) * turns / seconds / 1e9:6.2f} GB/s"
            )

    for magic in (0, 1, 2):
        data = b"".join(
            encode_message_set(piece, magic=magic, base_offset=i * BATCH_RECORDS)
            for i, piece in enumerate(pieces)
        )
        tasks = {}
        for name, loops in twins.items():
            tasks[f"records, {name}"] = lambda loops=loops, data=data: decode_all(loops, data)
            tasks[f"lists, {name}"] = lambda loops=loops, data=data: loops.decode_lists(
                data, 0, END, True, LIMIT
            )
            tasks[f"columns, {name}"] = lambda loops=loops, data=data: loops.decode_columns(
                data, 0, END, True, False, LIMIT
            )
        show(f"decode with CRC, magic {magic}", measure(tasks, rounds), count, "records, Python")

    for magic in (1, 2):
        tasks = {}
        for name, loops in twins.items():
            if magic == 2:
                tasks[f"encode, {name}"] = lambda loops=loops: [
                    loops.encode_records(piece, piece[0][2]) for piece in pieces
                ]
            else:
                tasks[f"encode, {name}"] = lambda loops=loops: [
                    loops.encode_messages(piece, 1, 0, None, None) for piece in pieces
                ]
        show(f"encode, magic {magic}", measure(tasks, rounds), count, "encode, Python")

    tasks = {
        f"magic {magic} {codec.label}": lambda magic=magic, codec=codec: [
            encode_message_set(piece, magic=magic, codec=codec) for piece in pieces
        ]
        for magic, codec in [(2, codec) for codec in Codec]
    }
    show("encode_message_set by codec", measure(tasks, rounds), count, "magic 2 none")


if __name__ == "__main__":
    main()
