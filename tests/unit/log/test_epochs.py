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


def test_epochs_grow_and_are_kept(tmp_path):
    epochs = epochs_of(tmp_path, (0, 0), (2, 10), (2, 12))
    assert epochs.all()[-1] == (epochs.latest, 10) == (2, 10)
    # Nothing was appended under 2.
    epochs.assign(3, 10)
    epochs.assign(5, 30)
    assert stored(tmp_path) == LeaderEpochs(FS, tmp_path).all() == [(0, 0), (3, 10), (5, 30)]
    (tmp_path / names.LEADER_EPOCHS).write_text("junk")
    assert LeaderEpochs(FS, tmp_path).latest == -1


def test_a_new_entry_removes_those_with_its_epoch_or_start_and_later_ones(tmp_path):
    epochs = epochs_of(tmp_path, (1, 0), (4, 10), (7, 20), (9, 30))
    epochs.assign(7, 20)
    assert stored(tmp_path) == [(1, 0), (4, 10), (7, 20)]
    epochs.assign(8, 10)
    assert stored(tmp_path) == [(1, 0), (8, 10)]


def test_the_end_of_an_epoch_is_what_a_leader_answers(tmp_path):
    epochs = epochs_of(tmp_path, (2, 5), (3, 10), (6, 30))
    asked = {epoch: epochs.end_offset_for(epoch, 44) for epoch in (-1, 0, 1, 2, 3, 4, 5, 6, 7)}
    assert asked == {
        -1: (-1, -1),
        0: (0, 5),
        1: (1, 5),
        2: (2, 10),
        3: (3, 30),
        4: (3, 30),
        5: (3, 30),
        6: (6, 44),
        7: (-1, -1),
    }
    assert epochs_of(tmp_path / "none").end_offset_for(0, 44) == (-1, -1)


def test_a_truncation_drops_the_epochs_that_begin_behind_it(tmp_path):
    epochs = epochs_of(tmp_path, (0, 0), (3, 10), (5, 30))
    epochs.truncate_to(31)
    assert epochs.latest == 5
    epochs.truncate_to(30)
    assert stored(tmp_path) == [(0, 0), (3, 10)]
    epochs.clear()
    assert stored(tmp_path) == []


def test_a_new_start_keeps_the_epoch_that_holds_it(tmp_path):
    epochs = epochs_of(tmp_path, (0, 0), (3, 10), (5, 30))
    epochs.advance_start_to(15)
    assert stored(tmp_path) == [(3, 15), (5, 30)]
    epochs.advance_start_to(30)
    assert stored(tmp_path) == [(5, 30)]


def test_messages_of_the_last_epoch_are_distinguished_from_those_of_a_new_one(tmp_path):
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
