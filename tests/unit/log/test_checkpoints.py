import pytest

from zkbroker.errors import StorageError
from zkbroker.log import FileSystem, TopicPartition, names
from zkbroker.log.checkpoints import (
    MetaProperties,
    read_epochs,
    read_meta,
    read_offsets,
    write_meta,
    write_offsets,
)
from zkbroker.log.epochs import LeaderEpochs

FS = FileSystem()


def test_an_offset_checkpoint_comes_back(tmp_path):
    offsets = {TopicPartition("a-1", 0): 5, TopicPartition("a", 10): 2**40}
    write_offsets(FS, tmp_path / "x", offsets)
    assert read_offsets(tmp_path / "x") == offsets
    assert (tmp_path / "x").read_text() == f"0\n2\na 10 {2**40}\na-1 0 5\n"
    assert read_offsets(tmp_path / "missing") == {}
    assert not (tmp_path / "x.tmp").exists()


@pytest.mark.parametrize(
    "text",
    ["1\n0\n", "0\n", "0\nx\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 y\n", "0\n1\na x 1\n"],
)
def test_a_malformed_checkpoint_names_its_file(tmp_path, text):
    (tmp_path / "x").write_text(text)
    with pytest.raises(StorageError, match="x"):
        read_offsets(tmp_path / "x")


def test_the_ids_of_a_directory_come_back(tmp_path):
    assert read_meta(tmp_path) == MetaProperties(None, None)
    for meta in (MetaProperties(7, "c"), MetaProperties(7, None), MetaProperties(None, "c")):
        write_meta(FS, tmp_path, meta)
        assert read_meta(tmp_path) == meta
    (tmp_path / "meta.properties").write_text("broker.id=x\n")
    with pytest.raises(StorageError, match=r"meta\.properties"):
        read_meta(tmp_path)


def test_leader_epochs_grow_are_kept_and_cut(tmp_path):
    epochs = LeaderEpochs(FS, tmp_path)
    assert epochs.latest == -1
    assert epochs.assign(0, 0)
    assert epochs.assign(2, 10)
    assert not epochs.assign(2, 12)
    # Nothing was appended under 2.
    assert epochs.assign(3, 10)
    assert epochs.assign(5, 30)
    assert read_epochs(tmp_path / names.LEADER_EPOCHS) == [(0, 0), (3, 10), (5, 30)]
    again = LeaderEpochs(FS, tmp_path)
    assert [again.end_of(epoch, 44) for epoch in (0, 2, 3, 5)] == [10, -1, 30, 44]
    again.truncate_start(15)
    assert read_epochs(tmp_path / names.LEADER_EPOCHS) == [(3, 15), (5, 30)]
    again.truncate(20)
    assert LeaderEpochs(FS, tmp_path).latest == 3
    (tmp_path / names.LEADER_EPOCHS).write_text("junk")
    assert LeaderEpochs(FS, tmp_path).latest == -1


@pytest.mark.parametrize("text", ["a-0", "a-b-12", "a.b_c--3", "0-0"])
def test_a_partition_s_name_comes_back(text):
    assert str(TopicPartition.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["a", "-1", "a-", "a-x", "a-01", "a b-0", "a-1.deadbeef-delete", "..-1"]
)
def test_other_names_are_no_partitions(text):
    with pytest.raises(ValueError, match="topic-partition"):
        TopicPartition.parse(text)


def test_the_directory_of_a_deleted_partition_fits_the_file_system():
    name = names.delete_directory_name(TopicPartition("t" * 249, 123))
    assert len(name) <= 255
    assert name.endswith("-delete")
