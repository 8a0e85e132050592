"""High watermarks on disk."""

from tests.support.fake_leader import StillRuntime
from tests.support.logs import TP, message_set, started
from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.checkpoints import read_offsets
from zkbroker.replica.checkpoint import HighWatermarkCheckpoint


class Ticks(StillRuntime):
    """An event that passes a number of intervals."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count
        self.waited: list[float] = []

    def event(self):
        return self

    def set(self) -> None:
        self.left = 0

    def wait(self, timeout_s: float) -> bool:
        self.waited.append(timeout_s)
        self.left -= 1
        return self.left < 0


def test_they_are_written_each_interval_where_they_changed(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(5), leader_epoch=0)
        marks = {TP: 3}
        manager.use_high_watermarks(lambda: marks)
        ticks = Ticks(2)
        HighWatermarkCheckpoint(manager, 250, runtime=ticks)._run()
        assert ticks.waited == [0.25] * 3
        path = tmp_path / names.HIGH_WATERMARKS
        assert read_offsets(path) == {TP: 3}
        before = path.stat().st_ino
        HighWatermarkCheckpoint(manager, 250, runtime=Ticks(1))._run()
        assert path.stat().st_ino == before
        marks[TP] = 9  # a log that was cut meanwhile: never beyond its end
        HighWatermarkCheckpoint(manager, 250, runtime=Ticks(1))._run()
        assert read_offsets(path) == {TP: 5}


def test_a_failed_write_does_not_end_it():
    class Broken:
        calls = 0

        def checkpoint_high_watermarks(self) -> None:
            self.calls += 1
            raise StorageError("no disk")

    logs = Broken()
    HighWatermarkCheckpoint(logs, 1, runtime=Ticks(3))._run()  # type: ignore[arg-type]
    assert logs.calls == 3
