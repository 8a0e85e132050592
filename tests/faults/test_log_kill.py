"""A killed process loses no acknowledged message."""

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


def run_and_kill(directory, acknowledgements):
    """Kill a process after some acknowledgements; return the last acknowledged log end."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(acknowledgements)]
        child.kill()
        # It may have acknowledged more before the signal came, the last one half written.
        lines += [line for line in child.stdout if line.endswith("\n")]
    return int(lines[-1])


def kill_repeatedly(directory, times):
    chosen = random.Random(4)
    for _ in range(times):
        acknowledged = run_and_kill(directory, chosen.randint(1, 120))
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
    kill_repeatedly(tmp_path, 4)


@pytest.mark.soak
def test_process_killed_100_times_keeps_acknowledged_messages(tmp_path):
    kill_repeatedly(tmp_path, soak.part_of(100))
