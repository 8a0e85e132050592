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
    [
        "1\n0\n",
        "0\n",
        "0\nx\n",
        "0\n2\na 0 1\n",
        "0\n1\na 0\n",
        "0\n1\na 0 y\n",
        "0\n1\na x 1\n",
        "0\n1\na 0 -1\n",
        "0\n1\na -1 0\n",
        f"0\n1\na 0 {2**63}\n",
        f"0\n1\na {2**31} 0\n",
    ],
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


@pytest.mark.parametrize(
    "rows", ["5 0\n3 9", "3 9\n5 2", "3 9\n3 9", "-1 0\n3 9", f"1 0\n{2**31} 9", f"1 0\n2 {2**63}"]
)
def test_epochs_that_do_not_grow_or_cannot_be_sent_are_refused(tmp_path, rows):
    (tmp_path / "x").write_text(f"0\n2\n{rows}\n")
    with pytest.raises(StorageError, match="x line"):
        read_epochs(tmp_path / "x")
