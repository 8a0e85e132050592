"""High watermarks on disk."""

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


def test_they_are_written_each_interval_where_they_changed(tmp_path):
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
        marks[TP] = 9  # a log that was cut meanwhile: never beyond its end
        checkpoint(manager)._write()
        assert read_offsets(path) == {TP: 5}


def test_a_failed_write_does_not_end_it():
    class Broken:
        calls = 0
        again = threading.Event()

        def checkpoint_high_watermarks(self) -> None:
            self.calls += 1
            if self.calls == 3:
                self.again.set()
            raise StorageError("no disk")

    logs = Broken()
    made = HighWatermarkCheckpoint(logs, 1, runtime=get_runtime())  # type: ignore[arg-type]
    made.start()
    assert logs.again.wait(30)
    made.close(30)
