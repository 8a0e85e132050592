"""The paths are those that genuine brokers and consumers use."""

from zkbroker.registry import paths


def test_paths_of_brokers_and_topics() -> None:
    assert paths.broker(3) == "/brokers/ids/3"
    assert paths.topic("t") == "/brokers/topics/t"
    assert paths.partition_state("t", 2) == "/brokers/topics/t/partitions/2/state"
    assert paths.topic_config("t") == "/config/topics/t"
    assert paths.delete_topic("t") == "/admin/delete_topics/t"
    assert paths.broker_config(3) == "/config/brokers/3"
    assert paths.broker_config(None) == "/config/brokers/<default>"


def test_paths_of_groups() -> None:
    assert paths.consumer("g", "g_c") == "/consumers/g/ids/g_c"
    assert paths.owner("g", "t", 2) == "/consumers/g/owners/t/2"
    assert paths.offset("g", "t", 2) == "/consumers/g/offsets/t/2"
