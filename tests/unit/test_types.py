"""Keys of partitions: as a pair, and as the name of a directory."""

import copy
import pickle

import pytest

from zkbroker.types import Partition07, TopicPartition, parse_partition


def test_topic_partition_equals_a_plain_pair():
    assert TopicPartition("t", 3) == ("t", 3)
    assert {("t", 3): 1}[TopicPartition("t", 3)] == 1


@pytest.mark.parametrize("text", ["t-0", "a-b-7", "a.b_c-12"])
def test_topic_partition_text_round_trips(text):
    assert str(TopicPartition.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "t",
        "t-",
        "t-01",
        "t-1\N{ARABIC-INDIC DIGIT TWO}",
        "-1",
        ".-1",
        "..-1",
        "a b-1",
        "t-0.delete",
    ],
)
def test_invalid_partition_name_is_refused(text):
    with pytest.raises(ValueError, match="is not topic-partition"):
        TopicPartition.parse(text)


def test_0_7_partition_is_a_number_with_its_own_text():
    partition = Partition07(10, 3)
    assert (partition.broker, partition.number, partition) == (10, 3, 10 * 65_536 + 3)
    assert f"{partition} {partition!r}" == "10-3 Partition07(10, 3)"
    assert str(TopicPartition("t", partition)) == "t-10-3"
    assert {655_363: 1}[partition] == 1
    for copied in (pickle.loads(pickle.dumps(partition)), copy.deepcopy(partition)):
        assert (copied, str(copied)) == (partition, "10-3")
    assert str(Partition07.from_number(655_363)) == "10-3"
    assert str(parse_partition("10-3")) == "10-3"
    assert parse_partition("7") == 7


@pytest.mark.parametrize("text", ["", "1-", "-1-2", "a-1", "1-65536", "1-2-3", "١-1"])
def test_invalid_0_7_partition_is_refused(text):
    with pytest.raises(ValueError, match=r"is no partition of Kafka 0\.7"):
        Partition07.parse(text)
