"""A process that is killed loses nothing that it acknowledged."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import soak
from tests.support.logs import TP, make_manager, read_all

ROOT = Path(__file__).parents[2]

CHILD = """
import sys
from pathlib import Path
from tests.support.logs import TP, make_manager, message_set
manager = make_manager(Path(sys.argv[1]), segment_bytes=3000, index_interval_bytes=200)
manager.start()
log = manager.get_or_create(TP)
number = log.log_end_offset
while True:
    data = message_set(1 + number % 3, magic=number % 3, prefix=f"{number}-")
    result = log.append_as_leader(data, leader_epoch=0)
    log.wait_durable(result.last_offset)
    number = result.last_offset + 1
    print(number, flush=True)
"""


def live_and_die(directory, acknowledgements):
    """Run a process until it acknowledged so much, and kill it; returns the offset it reached."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(acknowledgements)]
        child.kill()
        # It may have acknowledged more before the signal came, the last one half written.
        told += [line for line in child.stdout if line.endswith("\n")]
    return int(told[-1])


def kill_again_and_again(directory, times):
    chosen = random.Random(4)
    for _ in range(times):
        acknowledged = live_and_die(directory, chosen.randint(1, 120))
        manager = make_manager(directory)
        manager.start()
        log = manager.get(TP)
        assert log is not None
        assert log.log_end_offset >= acknowledged
        records = read_all(log)
        assert [record.offset for record in records] == list(range(log.log_end_offset))
        for expected, record in enumerate(records):
            number, _, index = (record.value or b"").rstrip(b".").partition(b"-")
            assert int(number) + int(index) == record.offset == expected
        manager.abandon()


def test_killed_process_keeps_acknowledged_messages(tmp_path):
    kill_again_and_again(tmp_path, 4)


@pytest.mark.soak
def test_process_killed_100_times_keeps_acknowledged_messages(tmp_path):
    kill_again_and_again(tmp_path, soak.part_of(100))
