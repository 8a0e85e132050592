"""The checkpoint file of high watermarks."""

import threading

from tests.support.fake_leader import StillRuntime
from tests.support.logs import TP, message_set, started
from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.checkpoints import read_offsets
from zkbroker.replica.checkpoint import HighWatermarkCheckpoint
from zkbroker.runtime import get_runtime


def checkpoint(logs):
    return HighWatermarkCheckpoint(logs, 250, runtime=StillRuntime())


def test_changed_high_watermarks_are_written(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(5), leader_epoch=0)
        marks = {TP: 3}
        manager.use_high_watermarks(lambda: marks)
        assert checkpoint(manager)._write() == 0.25
        path = tmp_path / names.HIGH_WATERMARKS
        assert read_offsets(path) == {TP: 3}
        before = path.stat().st_ino
        checkpoint(manager)._write()
        assert path.stat().st_ino == before
        marks[TP] = 9  # the log was truncated: never beyond its end
        checkpoint(manager)._write()
        assert read_offsets(path) == {TP: 5}


def test_failed_write_is_repeated():
    class BrokenLogs:
        calls = 0
        again = threading.Event()

        def checkpoint_high_watermarks(self) -> None:
            self.calls += 1
            if self.calls == 3:
                self.again.set()
            raise StorageError("no disk")

    logs = BrokenLogs()
    made = HighWatermarkCheckpoint(logs, 1, runtime=get_runtime())  # type: ignore[arg-type]
    made.start()
    assert logs.again.wait(30)
    made.close(30)
