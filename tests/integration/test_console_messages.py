"""Messages, logs, clients and settings of a real cluster in the console."""

import json
import threading

import pytest

from tests.support.consoles import open_producer, running_console
from zkbroker.producer import KeyedMessage
from zkbroker.zookeeper.embedded import free_port

HOSTILE = (
    "<script>alert(1)</script>",
    "\x1b]0;title\x07\x1b[2J\x9b31m",
    "\u202eevil\u2028\x00",
    '"><img src=x onerror=alert(1)>',
)
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def admin_port():
    return free_port()


@pytest.fixture(scope="module")
def cluster(local_cluster, admin_port):
    properties = {
        "admin.port": str(admin_port),
        "message.max.bytes": str(16 * MIB),
        "replica.fetch.max.bytes": str(16 * MIB),
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "sasl.jaas.config": "org.Plain required username='u' password='the-broker-secret';",
        "ssl.key.password": "the-key-secret",
    }
    with local_cluster(1, properties=properties) as cluster:
        for name, partitions in (("plain", 3), ("large", 1), ("hostile", 1), ("tx", 1)):
            cluster.create_topic(name, partitions=partitions)
        cluster.create_topic("small-segments", config={"segment.bytes": "20000"})
        yield cluster


@pytest.fixture(scope="module")
def console(cluster, admin_port):
    with running_console(
        "-z", cluster.zookeeper, "--interval", "0.5", "--admin-port", str(admin_port)
    ) as client:
        client.eventually("overview", lambda view: view["topics"] >= 5)
        yield client


def producer(cluster, **settings):
    return open_producer(cluster, **{"max.request.size": str(16 * MIB), **settings})


@pytest.fixture(scope="module")
def filled(cluster):
    with producer(cluster) as sender:
        for number in range(300):
            sender.send(KeyedMessage("plain", b'{"number": %d}' % number, key=b"key-%d" % number))
        sender.flush()
        for text in HOSTILE:
            sender.send(KeyedMessage("hostile", text.encode(), key=text.encode()))
        sender.send(KeyedMessage("large", b"small"))
        sender.send(KeyedMessage("large", b"x" * (10 * MIB)))
        sender.send(KeyedMessage("large", b"after"))
        for number in range(100):
            sender.send(KeyedMessage("small-segments", b"%d" % number * 500))
            sender.flush()
    return cluster


def all_messages(console, path):
    found = []
    places = ""
    while True:
        page = console.of(f"{path}{places}")
        found += page["messages"]
        if page["ended"]:
            return found
        places = "&at=" + ",".join(f"{key}:{value}" for key, value in page["next"].items())


def test_pages_contain_every_message_of_all_partitions(filled, console):
    found = all_messages(console, "messages?topic=plain&from=earliest&limit=37")
    assert sorted(each["value"]["json"]["number"] for each in found) == list(range(300))
    assert len({(each["partition"], each["offset"]) for each in found}) == 300
    (one,) = [each for each in found if each["value"]["json"]["number"] == 17]
    assert one["key"]["text"] == "key-17"
    assert (one["state"], one["format"], one["time_type"]) == ("committed", 2, "create")
    assert one["value"]["hex"] == b'{"number": 17}'.hex()


def test_reading_starts_at_an_offset_a_time_or_the_end(filled, console):
    first = console.of("messages?topic=plain&partition=1&from=5&limit=3")["messages"]
    assert [each["offset"] for each in first] == [5, 6, 7]
    at = f"@{first[1]['time_ms']}"
    by_time = console.of(f"messages?topic=plain&partition=1&from={at}&limit=1")["messages"]
    assert by_time[0]["time_ms"] >= first[1]["time_ms"]
    assert by_time[0]["offset"] <= 6
    last = console.of("messages?topic=plain&partition=1&from=-4")
    assert (len(last["messages"]), last["ended"]) == (4, True)
    assert console.of("messages?topic=plain&from=latest")["messages"] == []
    assert console.of("messages?topic=plain&from=@2099-01-01")["messages"] == []


def test_messages_are_searched_by_key_and_content(filled, console):
    found = console.of("messages?topic=plain&from=earliest&key=key-250")["messages"]
    assert [each["value"]["json"] for each in found] == [{"number": 250}]
    found = console.of("messages?topic=plain&from=earliest&contains=%22number%22:%2025")
    numbers = {each["value"]["json"]["number"] for each in found["messages"]}
    assert numbers == {25, *range(250, 260)}
    assert (found["ended"], found["scanned"]) == (True, 300)


def test_control_characters_are_returned_unchanged_in_json(filled, console):
    status, headers, data = console.ask(
        "GET", f"api/clusters/{console.cluster}/messages?topic=hostile&from=earliest"
    )
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert [each["value"]["text"] for each in json.loads(data)["messages"]] == list(HOSTILE)


def test_large_message_is_cut_and_downloaded_whole(filled, console):
    status, _, data = console.ask(
        "GET", f"api/clusters/{console.cluster}/messages?topic=large&from=earliest"
    )
    assert status == 200
    assert len(data) < 2 * MIB
    small, large, after = json.loads(data)["messages"]
    assert (small["value"]["text"], after["value"]["text"]) == ("small", "after")
    assert (large["value"]["bytes"], large["value"]["shown"]) == (10 * MIB, 64 * 1024)
    where = f"api/clusters/{console.cluster}/messages/value?topic=large&partition=0&offset=1"
    status, headers, data = console.ask("GET", where)
    assert (status, data) == (200, b"x" * (10 * MIB))
    assert headers["Content-Disposition"].startswith("attachment")
    assert "sandbox" in headers["Content-Security-Policy"]
    assert console.refused(f"{where}&part=key")[0] == 404


def test_messages_have_their_transaction_state(cluster, console):
    for name, commits in (("kept", True), ("lost", False)):
        with producer(cluster, **{"transactional.id": f"id-{name}"}) as sender:
            sender.init_transactions()
            sender.begin()
            sender.send(KeyedMessage("tx", name.encode()))
            sender.flush()
            if commits:
                sender.commit()
            else:
                sender.abort()
    with producer(cluster, **{"transactional.id": "id-open"}) as sender:
        sender.init_transactions()
        sender.begin()
        sender.send(KeyedMessage("tx", b"not yet"))
        sender.flush()
        found = all_messages(console, "messages?topic=tx&from=earliest&limit=2")
        assert [(each["value"]["text"], each["state"]) for each in found] == [
            ("kept", "committed"),
            ("commit", "control"),
            ("lost", "aborted"),
            ("abort", "control"),
            ("not yet", "open"),
        ]
        sender.abort()


def test_tail_sends_new_messages_and_counts_skipped_ones(cluster, console):
    with console.events("messages/tail?topic=plain") as events:
        with producer(cluster) as sender:
            done = threading.Event()

            def send():
                number = 0
                while not done.wait(0.05) and number < 1000:
                    sender.send(KeyedMessage("plain", b"live %d" % number))
                    number += 1

            sending = threading.Thread(target=send)
            sending.start()
            name, message = next(events)
            assert name == "message"
            assert message["value"]["text"].startswith("live")
            done.set()
            sending.join()
            for number in range(2000):
                sender.send(KeyedMessage("plain", b"many %d" % number))
            sender.flush()
        for name, message in events:
            if name == "skipped":
                assert message["n"] > 0
                break


def test_partition_log_shows_segments_and_offsets_by_time(filled, console):
    found = console.eventually(
        "topics/small-segments/partitions/0/log", lambda view: view["source"] == "files"
    )
    segments = found["segments"]
    assert len(segments) >= 2
    assert [each["active"] for each in segments] == [False] * (len(segments) - 1) + [True]
    assert sum(each["records"] for each in segments) == 100
    assert {tuple(each["formats"]) for each in segments} == {(2,)}
    assert all(each["first_time_ms"] <= each["last_time_ms"] for each in segments)
    offsets = [each["offset"] for each in found["offsets_by_time"]]
    assert offsets == sorted(offsets)
    assert (offsets[0], offsets[-1]) == (0, 100)


def test_clients_show_their_api_versions(filled, console, admin_port):
    found = console.eventually(
        "clients", lambda view: any(each["oldest"] for each in view["clients"])
    )
    assert (found["sources"], found["missing"]) == ([1], [])
    own = next(each for each in found["clients"] if each["client_id"] == "zkbroker-console")
    assert {"api": "Metadata", "since": "2.1", "version": 7} in [
        {name: each[name] for name in ("api", "since", "version")} for each in own["apis"]
    ]
    assert sum(each["clients"] for each in found["by_generation"]) >= 1


def test_overview_shows_data_of_the_admin_page(filled, console):
    found = console.eventually("overview", lambda view: view["brokers"][0]["cpu"] is not None)
    (broker,) = found["brokers"]
    assert broker["resident_bytes"] > 10 * MIB
    assert broker["version"]
    assert broker["connections"] >= 1
    assert broker["bytes_in_s"] is not None


def test_settings_have_sources_and_no_secrets(console):
    status, _, data = console.ask("GET", f"api/clusters/{console.cluster}/settings")
    assert status == 200
    rows = {each["name"]: each for each in json.loads(data)["brokers"]["1"]}
    assert rows["message.max.bytes"]["value"] == str(16 * MIB)
    assert rows["message.max.bytes"]["source"] == "broker's file"
    assert b"-secret" not in data


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("messages?topic=none", 404),
        ("messages?topic=", 404),
        ("messages?topic=plain&partition=9", 404),
        ("messages?topic=plain&partition=x", 400),
        ("messages?topic=plain&from=x", 400),
        ("messages?topic=plain&from=%2B5", 400),
        ("messages?topic=plain&limit=0", 400),
        ("messages?topic=plain&at=1:x", 400),
        ("messages?topic=plain&at=7:1", 404),
        ("messages/value?topic=plain", 400),
        ("messages/value?topic=plain&partition=0&offset=99999999", 404),
        ("messages/value?topic=plain&partition=0&offset=1&part=x", 400),
        ("messages/tail?topic=none", 404),
        ("topics/plain/partitions/9/log", 404),
        ("topics/plain/partitions/x/log", 400),
        ("topics/none/partitions/0/log", 404),
    ],
)
def test_invalid_queries_are_refused(console, query, status):
    found, refusal = console.refused(f"api/clusters/{console.cluster}/{query}")
    assert found == status
    assert refusal["error"]
