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


def test_offset_checkpoint_round_trips(tmp_path):
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
def test_malformed_checkpoint_error_names_file(tmp_path, text):
    (tmp_path / "x").write_text(text)
    with pytest.raises(StorageError, match="x"):
        read_offsets(tmp_path / "x")


def test_meta_properties_round_trip(tmp_path):
    assert read_meta(tmp_path) == MetaProperties(None, None)
    for meta in (MetaProperties(7, "c"), MetaProperties(7, None), MetaProperties(None, "c")):
        write_meta(FS, tmp_path, meta)
        assert read_meta(tmp_path) == meta
    (tmp_path / "meta.properties").write_text("broker.id=x\n")
    with pytest.raises(StorageError, match=r"meta\.properties"):
        read_meta(tmp_path)


def test_partition_names_are_parsed_and_others_refused():
    for text in ("a-0", "a-b-12", "a.b_c--3", "0-0", "a-1-b.c_d-2-11"):
        assert str(TopicPartition.parse(text)) == text
    for text in ("a", "-1", "a-", "a-x", "a-01", "a b-0", "a-1.deadbeef-delete", "..-1"):
        with pytest.raises(ValueError, match="topic-partition"):
            TopicPartition.parse(text)


def test_name_of_deleted_partition_directory_fits_file_system():
    name = names.delete_directory_name(TopicPartition("t" * 249, 123))
    assert len(name) <= 255
    assert name.endswith("-delete")


@pytest.mark.parametrize(
    "rows", ["5 0\n3 9", "3 9\n5 2", "3 9\n3 9", "-1 0\n3 9", f"1 0\n{2**31} 9", f"1 0\n2 {2**63}"]
)
def test_invalid_leader_epoch_checkpoint_is_refused(tmp_path, rows):
    (tmp_path / "x").write_text(f"0\n2\n{rows}\n")
    with pytest.raises(StorageError, match="x line"):
        read_epochs(tmp_path / "x")
