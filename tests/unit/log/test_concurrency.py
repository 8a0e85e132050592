"""Concurrent appends, reads, rolls, deletions and flushes."""

import os
import threading

import pytest

from tests.support.logs import TP, append, start_log, started, started_log
from zkbroker.errors import OffsetOutOfRange
from zkbroker.log.checkpoints import read_offsets
from zkbroker.records import iter_records
from zkbroker.runtime import get_runtime

APPENDS = 600


def test_reads_continue_during_rolls_deletions_and_flushes(tmp_path):
    with started(
        tmp_path,
        segment_bytes=2000,
        index_interval_bytes=200,
        flush_messages=20,
        file_delete_delay_ms=0,
        manager={"open_segments": 2},
    ) as manager:
        log = manager.get_or_create(TP)
        done = threading.Event()
        errors = []

        def thread_of(work):
            def run():
                try:
                    work()
                except Exception as error:  # noqa: BLE001 - the main thread reports it
                    errors.append(error)
                    done.set()

            return threading.Thread(target=run)

        def write():
            for at in range(APPENDS):
                result = append(log, 2, magic=at % 3, prefix=f"{log.log_end_offset}-")
                if at % 10 == 0:
                    log.wait_durable(result.last_offset, timeout_s=60)
            done.set()

        def delete():
            while not done.is_set():
                log.advance_start_to(max(log.log_end_offset - 100, 0))
                manager.upkeep.run_deletions()
                manager.upkeep.checkpoint()

        def read():
            offset = 0
            while True:
                finished = done.is_set()
                try:
                    found = log.read(offset, 700, end=log.log_end_offset)
                except OffsetOutOfRange as error:
                    offset = max(error.earliest, offset + 1)
                    continue
                if found.slice is None:
                    if finished:
                        break
                    continue
                data = os.pread(found.slice.fd, found.slice.size, found.slice.position)
                found.slice.close()
                for record in iter_records(data, start_offset=offset):
                    number, _, index = record.value.rstrip(b".").partition(b"-")
                    assert int(number) + int(index) == record.offset == offset
                    offset += 1
            assert offset == 2 * APPENDS

        threads = [thread_of(work) for work in (write, delete, read, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert errors == []


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_concurrent_appends_get_dense_offsets(tmp_path, runtime):
    with started_log(tmp_path, runtime=runtime, segment_bytes=3000, flush_messages=1) as log:
        results = []

        def produce():
            for _ in range(10):
                result = append(log, 3)
                log.wait_durable(result.last_offset, timeout_s=60)
                results.append(result.base_offset)

        tasks = [get_runtime(runtime).spawn(produce, name=f"{at}") for at in range(12)]
        for task in tasks:
            assert task.join(60)
        assert sorted(results) == list(range(0, 360, 3))
        assert log.recovery_point == 360


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_concurrent_log_start_checkpoints_do_not_go_back(tmp_path, runtime):
    manager, _ = start_log(tmp_path, runtime=runtime)
    partitions = [TP._replace(partition=at) for at in range(6)]
    for tp in partitions:
        append(manager.get_or_create(tp), 50)

    def trim(tp):
        for offset in range(1, 40):
            manager.get(tp).advance_start_to(offset)

    tasks = [get_runtime(runtime).spawn(trim, tp, name=str(tp)) for tp in partitions]
    for task in tasks:
        assert task.join(60)
    assert manager.offline_dirs() == {}
    manager.abandon()
    written = read_offsets(tmp_path / "log-start-offset-checkpoint")
    assert written == dict.fromkeys(partitions, 39)
