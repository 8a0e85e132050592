from types import SimpleNamespace

from zkbroker.admin.broker_queries import LogDirectory, StoredReplica
from zkbroker.admin.topics import PartitionDescription, TopicDescription
from zkbroker.console import views
from zkbroker.console.access import ClusterSettings
from zkbroker.console.cluster_state import (
    BrokerFacts,
    ClusterState,
    GroupOffset,
    GroupStorage,
    SeenBroker,
    SeenGroup,
    SeenMember,
)
from zkbroker.console.publication import Publication
from zkbroker.console.sampling import Look

ACCESS = SimpleNamespace(settings=ClusterSettings(id="c", name="c", zookeeper="a:1,b:1/kafka"))


def cluster_state():
    found = ClusterState(
        cluster_id="id", controller=1, alive=frozenset({1, 2}), zookeeper="connected"
    )
    found.brokers = {each: SeenBroker(each, f"h{each}", 9092, None) for each in (1, 2, 3)}
    found.topics = {
        "t": TopicDescription(
            "t",
            {},
            (
                PartitionDescription(0, 1, (1, 2), (1, 2)),
                PartitionDescription(1, 2, (2, 3), (2,)),
                PartitionDescription(2, None, (3,), (3,), available=False),
            ),
        )
    }
    found.looks = {
        ("t", 0): Look(end=10, start=4, rate=2.5),
        ("t", 1): Look(end=7, start=0, rate=1.5),
        ("t", 2): Look(),
    }
    found.epochs = {("t", 0): 5, ("t", 1): -1}
    found.min_isr = {"t": 2}
    found.sizes = {("t", 0): 100, ("t", 1): 50}
    found.growth = {"t": 12.3456}
    found.directories = {
        1: [LogDirectory("/d", None, (StoredReplica("t", 0, 100, 0, False),))],
        2: [LogDirectory("/d", "it failed", ())],
    }
    found.groups = {
        (GroupStorage.COORDINATOR, "g"): SeenGroup(
            GroupStorage.COORDINATOR,
            "g",
            1,
            5,
            "Stable",
            (SeenMember("m1", "client", "/1.2.3.4", (("t", 0),)),),
            {("t", 0): GroupOffset(4), ("t", 2): GroupOffset(1)},
            {("t", 0): "m1"},
        )
    }
    return found


def test_topic_row_has_none_for_unknown_sums():
    (row,) = views.topics(cluster_state())
    assert row["under_replicated"] == 1
    assert row["offline"] == 1
    assert row["messages"] is None  # one partition has no known offsets
    assert row["bytes"] is None
    assert row["messages_in_s"] == 4.0
    assert row["bytes_s"] == 12.35
    assert row["settings_changed"] is None


def test_partition_states():
    found = cluster_state()
    rows = views.partition_rows(found, found.topics["t"])
    assert [row["state"] for row in rows] == ["ok", "under", "offline"]
    assert [row["leader_epoch"] for row in rows] == [5, None, None]
    assert (rows[0]["start"], rows[0]["end"], rows[0]["bytes"]) == (4, 10, 100)


def test_group_lag_ignores_unknown_ends():
    found = cluster_state()
    (row,) = views.groups(found)
    assert (row["lag"], row["members"], row["topics"]) == (6, 1, ["t"])
    page = views.group_page(found, found.groups[GroupStorage.COORDINATOR, "g"])
    assert [each["lag"] for each in page["offsets"]] == [6, None]
    assert page["offsets"][0]["owner"] == "m1"
    assert page["members"][0]["owns"] == [{"topic": "t", "partition": 0}]
    assert views.groups_of_topic(found, "t") == [{"kind": "coordinator", "name": "g", "lag": 6}]
    assert views.groups_of_topic(found, "other") == []


def test_overview_lists_problems():
    found = cluster_state()
    found.troubles["groups"] = "groups cannot be listed"
    page = views.overview(found, ACCESS, views.topics(found), 7)
    servers = ["a:1", "b:1"]
    assert page["zookeeper"] == {"servers": servers, "session": "connected", "chroot": "/kafka"}
    assert (page["under_replicated"], page["offline"], page["below_min_isr"]) == (1, 1, 1)
    texts = [(each["severity"], each["text"], each["link"]) for each in page["problems"]]
    assert ("warning", "groups cannot be listed", None) in texts
    missing = "broker 3 is not registered and has replicas: t-1, t-2"
    assert ("error", missing, "topics/t") in texts
    assert any("/d of broker 2 is offline: it failed" in text for _, text, _ in texts)


def test_unregistered_broker_stays_in_the_overview():
    found = cluster_state()
    page = views.overview(found, ACCESS, views.topics(found), 7)
    one, two, three = page["brokers"]
    assert (one["leaders"], one["replicas"], one["disk_bytes"]) == (1, 1, 100)
    assert one["controller"]
    assert (two["under_replicated"], two["messages_in_s"]) == (0, 1.5)
    assert three["under_replicated"] == 1  # the replica that lags is its own
    assert (three["alive"], three["host"], three["messages_in_s"]) == (False, "h3", None)


def test_byte_rate_is_the_sum_if_all_brokers_report_it():
    found = cluster_state()
    assert views.overview(found, ACCESS, (), 7)["bytes_in_s"] == 12.35
    found.facts = {1: BrokerFacts(bytes_in_s=1.0), 2: BrokerFacts(bytes_in_s=2.0)}
    assert views.overview(found, ACCESS, (), 7)["bytes_in_s"] == 3.0


def test_unreached_cluster_has_one_problem():
    found = ClusterState()
    found.troubles["cluster"] = "the cluster cannot be seen now: nobody answers"
    page = views.overview(found, ACCESS, (), 7)
    assert [each["severity"] for each in page["problems"]] == ["error"]
    assert page["zookeeper"]["session"] == "lost"


def test_publication_lists_changed_and_removed_rows():
    found = cluster_state()
    first = Publication(1, found, ACCESS, 1)
    same = Publication(2, found, ACCESS, 2)
    assert same.changed("topics", first) == []
    assert same.changed_text("topics", first) is None
    found.looks["t", 0].end = 11
    found.topics = {**found.topics, "new": TopicDescription("new", {}, ())}
    found.groups = {}
    third = Publication(3, found, ACCESS, 3)
    assert [row["name"] for row in third.changed("topics", same)] == ["new"]
    assert third.gone("groups", same) == [["coordinator", "g"]]
    assert third.gone("topics", same) == []
    assert [row["name"] for row in third.changed("topics", None)] == ["t", "new"]
    assert "directories" not in third.overview_text
    assert third.series["cluster.offline"] == 1
    assert third.series["topic.t.messages_in_s"] == 4.0


def test_overview_before_the_first_reading_has_no_problems() -> None:
    assert Publication(0, ClusterState(), ACCESS, 1).overview["problems"] == []
    (problem, *_) = Publication(1, ClusterState(), ACCESS, 2).overview["problems"]
    assert problem["text"] == "no broker is registered"
