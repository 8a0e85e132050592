import pytest

from zkbroker.cluster import ClusterProcesses
from zkbroker.cluster.replication import replication_properties
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("brokers", "factor", "least"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_default_replication_is_three_or_the_number_of_brokers(brokers, factor, least):
    assert replication_properties(brokers, None) == replication_properties(brokers, factor, least)


@pytest.mark.parametrize(
    ("brokers", "factor", "given", "least"),
    [
        (1, 1, None, 1),
        (3, 2, None, 1),
        (3, 3, None, 2),
        (5, 4, None, 2),
        (3, 3, 3, 3),
        (3, 3, 1, 1),
    ],
)
def test_replication_applies_to_new_topics_and_the_offsets_topic(brokers, factor, given, least):
    assert replication_properties(brokers, factor, given) == {
        "default.replication.factor": str(factor),
        "min.insync.replicas": str(least),
        "offsets.topic.replication.factor": str(factor),
    }


@pytest.mark.parametrize(
    ("factor", "given", "problem"),
    [
        (4, None, "there are 3: give a replication factor from 1 to 3"),
        (0, None, "from 1 to 3"),
        (2, 3, "3 of 2 replicas cannot be in sync"),
        (2, 0, "from 1 to 2"),
        (None, 4, "4 of 3 replicas cannot be in sync"),
    ],
)
def test_impossible_replication_is_refused_before_the_start(tmp_path, factor, given, problem):
    with pytest.raises(ConfigError, match=problem):
        ClusterProcesses(
            tmp_path / "data", brokers=3, replication=factor, min_insync_replicas=given
        )
    assert not (tmp_path / "data").exists()


def test_given_property_overrides_replication(tmp_path):
    made = []
    cluster = ClusterProcesses(
        tmp_path,
        brokers=3,
        zookeeper="127.0.0.1:1",
        replication=3,
        properties={"offsets.topic.replication.factor": "1"},
        make_broker=lambda directory, properties: made.append(properties) or _Unstarted(),
    )
    with pytest.raises(LookupError):
        cluster.start()
    assert made[0]["default.replication.factor"] == "3"
    assert made[0]["min.insync.replicas"] == "2"
    assert made[0]["offsets.topic.replication.factor"] == "1"


class _Unstarted:
    def launch(self):
        raise LookupError

    def request_stop(self):
        pass

    def stop(self, timeout_s):
        return True
