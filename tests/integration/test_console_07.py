"""A cluster of Kafka 0.7 in the console."""

import pytest

from tests.support import chromium
from tests.support.chromium import Watched
from tests.support.client07 import Broker07, broker_address, entry, gzip_wrapper
from tests.support.cluster07 import (
    OurMember07,
    cluster07,
    commits,
    ends,
    make_topic,
    registry_tree,
)
from tests.support.consoles import running_console
from tests.support.zookeeper import until
from zkbroker.types import Partition07


@pytest.fixture(scope="module")
def tree(zookeeper):
    with registry_tree(f"{zookeeper.connect_string}/console-generations") as zk:
        yield zk


@pytest.fixture(scope="module")
def site(zookeeper, tree, tmp_path_factory):
    """Two brokers, a topic with a compressed set, and a group that has read all messages."""
    directory = tmp_path_factory.mktemp("brokers")
    with cluster07(directory, f"{zookeeper.connect_string}/console-generations", tree) as brokers:
        make_topic(tree, "visits")
        broker = Broker07(*broker_address(tree, 1))
        broker.produce("visits", 1, gzip_wrapper([b"inside-%d" % number for number in range(60)]))
        broker.produce("visits", 1, entry(b"behind"))
        member = OurMember07(
            tree.connect_string, "readers", {"visits": 1}, autocommit_interval_ms=200
        )
        until(lambda: len(member.messages) == 63)
        until(lambda: commits(tree, "readers", "visits") == ends(tree, "visits"))
        broker.close()
        file = directory / "old.properties"
        file.write_text(f"zookeeper.connect={tree.connect_string}\nkafka.generation=0.7\n")
        with running_console(
            "--cluster", f"old={file}", "--interval", "0.5", "--allow-changes"
        ) as console:
            yield brokers, console, member
        member.close()


def test_console_shows_a_cluster_of_0_7(site, tree):
    _, console, _ = site
    at = Partition07(1, 1)
    end = ends(tree, "visits")["1-1"]
    topic = console.eventually(
        "topics/visits", lambda view: view["bytes"] == sum(ends(tree, "visits").values())
    )
    assert [each["id"] for each in topic["partitions"]] == [
        Partition07(broker, number) for broker in (0, 1) for number in (0, 1)
    ]
    assert topic["partitions"][3] | {"end": end, "start": 0, "leader": 1} == topic["partitions"][3]
    assert topic["messages"] is None
    assert topic["settings"] is None
    assert topic["settings_error"] == "Kafka 0.7 has no settings of topics"
    overview = console.of("overview")
    assert [each["alive"] for each in overview["brokers"]] == [True, True]
    assert overview["problems"] == []
    assert console.get("api/session")["clusters"] == [
        {"id": "old", "name": "old", "generation": "0.7"}
    ]
    # Whole sets are read, since reading cannot resume within one.
    path = "messages?topic=visits&partition=1-1&limit=10"
    found = console.of(path)
    inside = found["messages"]
    assert [each["value"]["text"] for each in inside] == [f"inside-{n}" for n in range(60)]
    assert [each["inside"] for each in inside] == list(range(60))
    assert {each["offset"] for each in inside} == {0}
    assert inside[0]["compression"] == "gzip"
    following = console.of(f"{path}&from={found['next'][str(int(at))]}")
    assert following["messages"][0]["value"]["text"] == "behind"
    assert following["ended"]
    value = f"messages/value?topic=visits&partition={int(at)}&offset=0&inside=7"
    assert console.ask("GET", f"api/clusters/old/{value}")[2] == b"inside-7"
    log = console.of(f"topics/visits/partitions/{int(at)}/log")
    assert [(each["base_offset"], each["bytes"]) for each in log["segments"]] == [(0, end)]
    # Features of 0.8 and later are refused.
    for path, message in (
        ("messages?topic=visits&from=-5", "positions of Kafka 0.7 are bytes"),
        ("messages/tail?topic=visits", "Kafka 0.7 has no live tail"),
        ("settings", "Kafka 0.7 has no settings that brokers tell"),
    ):
        status, refusal = console.refused(f"api/clusters/old/{path}")
        assert status in (400, 501)
        assert message in refusal["error"]
    status, refusal = console.post("topics/visits/delete", {"dry_run": True})
    assert (status, refusal["error"]) == (
        501,
        "Kafka 0.7 has no topics and groups that this page can change",
    )
    for nothing in ("mirrors", "loads", "reassignments"):
        assert not any(console.of(nothing).values())


@pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing()))
def test_page_hides_features_that_0_7_lacks(site):
    _, console, _ = site
    with chromium.chromium() as browser:
        reader = Watched(browser, console.base)
        page = reader.open("overview")
        page.get_by_text("A cluster of Kafka 0.7").wait_for()
        sections = page.get_by_role("navigation", name="Views").get_by_role("link")
        assert sections.all_inner_texts() == ["Overview", "Topics", "Groups", "Messages"]
        assert page.get_by_text("Under-replicated").count() == 0
        page = reader.open("topics/visits")
        page.get_by_role("link", name="1-1", exact=True).wait_for()
        page.get_by_text("Kafka 0.7 has no settings of topics").wait_for()
        assert page.get_by_role("button", name="Delete").count() == 0
        page.get_by_role("link", name="1-1", exact=True).click()
        page.get_by_role("heading", name="visits, partition 1-1").wait_for()
        page = reader.open("groups/zookeeper/readers")
        page.get_by_text("visits-1-1").wait_for()
        page = reader.open("messages?topic=visits&partition=1-1")
        page.get_by_role("button", name="0+59", exact=True).click()
        page.locator("pre", has_text="inside-59").wait_for()
        assert page.get_by_role("button", name="Live tail").count() == 0
        for width in (400, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            reader.fits(width)
        assert not reader.faults
        reader.close()


# The next tests change the cluster of the others.


def test_group_lag_of_0_7_is_in_bytes(site, tree):
    _, console, member = site
    group = console.eventually(
        "groups/zookeeper/readers",
        lambda view: view["members"] and {each["lag"] for each in view["offsets"]} == {0},
    )
    assert (group["state"], group["lag"]) == ("Stable", 0)
    assert [each["id"] for each in group["members"]] == [member.id]
    assert len(group["members"][0]["owns"]) == 4
    member.close()
    broker = Broker07(*broker_address(tree, 0))
    before = ends(tree, "visits")["0-1"]
    broker.produce("visits", 1, entry(b"left unread"))
    until(lambda: ends(tree, "visits")["0-1"] > before)
    broker.close()
    behind = ends(tree, "visits")["0-1"] - before
    group = console.eventually("groups/zookeeper/readers", lambda view: view["lag"] == behind)
    assert (group["state"], group["members"]) == ("Empty", [])
    assert console.eventually("groups", lambda view: view["groups"][0]["lag"] == behind)


def test_killed_broker_of_0_7_is_a_problem(site):
    brokers, console, _ = site
    brokers[0].kill()
    gone = console.eventually(
        "overview",
        lambda view: any(
            "partitions of brokers 0 are unavailable" in p["text"] for p in view["problems"]
        ),
    )
    assert [each["alive"] for each in gone["brokers"]] == [False, True]
