from zkbroker.admin.broker_queries import LogDirectory
from zkbroker.admin.health import find_problems, offline_directories
from zkbroker.admin.topics import PartitionDescription, TopicDescription


def topic(name, *partitions, deleted=False):
    return TopicDescription(name, {}, partitions, deleted)


def test_healthy_cluster_has_no_problem():
    healthy = topic("a", PartitionDescription(0, 1, (1, 2), (2, 1)))
    assert find_problems([healthy], [1, 2], 2, {"a": 2}) == []


def test_each_problem_lists_its_partitions():
    described = [
        topic(
            "a",
            PartitionDescription(0, 1, (1, 2), (1,)),
            PartitionDescription(1, None, (3,), (3,), available=False, missing=(3,)),
            PartitionDescription(2, 3, (3, 1), (3,), available=False),
        ),
        topic("gone", PartitionDescription(0, None, (3,), ()), deleted=True),
    ]
    found = {
        each.problem: each.partitions for each in find_problems(described, [1, 2], 1, {"a": 2})
    }
    assert found == {
        "broker_missing": (("a", 1), ("a", 2)),
        "offline_partitions": (("a", 1), ("a", 2)),
        "under_replicated_partitions": (("a", 0),),
        "under_min_isr_partitions": (("a", 0),),
    }
    unknown = find_problems(described[:1], [1, 2, 3], 1, {})
    assert "under_min_isr_partitions" not in {each.problem for each in unknown}


def test_missing_controller_and_brokers_are_reported():
    assert [each.problem for each in find_problems([], [], None, {})] == [
        "no_brokers",
        "no_controller",
    ]
    (gone,) = find_problems([], [1], 2, {})
    assert gone.text == "the controller is broker 2, which is not registered"


def test_offline_directory_is_reported_with_its_broker():
    directories = {2: [LogDirectory("/a", None, ()), LogDirectory("/b", "it failed", ())]}
    (found,) = offline_directories(directories)
    assert found.text == "data directory /b of broker 2 is offline: it failed"
