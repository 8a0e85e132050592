from zkbroker.log import names
from zkbroker.log.checkpoints import read_epochs
from zkbroker.log.epochs import LeaderEpochs
from zkbroker.log.fs import FileSystem

FS = FileSystem()


def epochs_of(path, *pairs):
    epochs = LeaderEpochs(FS, path)
    for pair in pairs:
        epochs.assign(*pair)
    return epochs


def stored(path):
    return read_epochs(path / names.LEADER_EPOCHS)


def test_leader_epochs_increase_and_are_stored(tmp_path):
    epochs = epochs_of(tmp_path, (0, 0), (2, 10), (2, 12))
    assert epochs.all()[-1] == (epochs.latest, 10) == (2, 10)
    # Nothing was appended under 2.
    epochs.assign(3, 10)
    epochs.assign(5, 30)
    assert stored(tmp_path) == LeaderEpochs(FS, tmp_path).all() == [(0, 0), (3, 10), (5, 30)]
    (tmp_path / names.LEADER_EPOCHS).write_text("junk")
    assert LeaderEpochs(FS, tmp_path).latest == -1


def test_new_epoch_replaces_conflicting_entries(tmp_path):
    epochs = epochs_of(tmp_path, (1, 0), (4, 10), (7, 20), (9, 30))
    epochs.assign(7, 20)
    assert stored(tmp_path) == [(1, 0), (4, 10), (7, 20)]
    epochs.assign(8, 10)
    assert stored(tmp_path) == [(1, 0), (8, 10)]


def test_end_offset_of_epoch_matches_leader_answer(tmp_path):
    epochs = epochs_of(tmp_path, (2, 5), (3, 10), (6, 30))
    expected = {-1: (-1, -1), 0: (0, 5), 1: (1, 5), 2: (2, 10), 6: (6, 44), 7: (-1, -1)}
    expected |= dict.fromkeys((3, 4, 5), (3, 30))
    assert {epoch: epochs.end_offset_for(epoch, 44) for epoch in expected} == expected
    assert epochs_of(tmp_path / "none").end_offset_for(0, 44) == (-1, -1)


def test_truncation_drops_later_epochs(tmp_path):
    epochs = epochs_of(tmp_path, (0, 0), (3, 10), (5, 30))
    epochs.truncate_to(31)
    assert epochs.latest == 5
    epochs.truncate_to(30)
    assert stored(tmp_path) == [(0, 0), (3, 10)]
    epochs.clear()
    assert stored(tmp_path) == []


def test_new_log_start_keeps_its_epoch(tmp_path):
    epochs = epochs_of(tmp_path, (0, 0), (3, 10), (5, 30))
    epochs.advance_start_to(15)
    assert stored(tmp_path) == [(3, 15), (5, 30)]
    epochs.advance_start_to(30)
    assert stored(tmp_path) == [(5, 30)]


def test_only_messages_of_latest_epoch_continue_it(tmp_path):
    epochs = epochs_of(tmp_path)
    assert epochs.goes_on(-1, 0)
    assert not epochs.goes_on(0, 0)
    epochs.assign(2, 10)
    assert epochs.goes_on(2, 10)
    assert epochs.goes_on(2, 99)
    assert not epochs.goes_on(2, 9)
    assert not epochs.goes_on(1, 99)
    assert not epochs.goes_on(3, 99)
    assert not epochs.goes_on(-1, 99)
