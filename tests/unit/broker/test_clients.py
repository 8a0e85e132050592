import json

from tests.support.replicas import PlainRuntime
from zkbroker.broker.clients import (
    FILE_NAME,
    MAX_ADDRESSES,
    MAX_CLIENTS,
    MAX_REQUEST_KINDS,
    OTHER,
    ClientCounts,
    ClientVersions,
    save_clients,
)


def test_requests_of_each_client_are_counted_and_saved(tmp_path):
    clients = ClientVersions(PlainRuntime(lambda: 1000))
    old = clients.client("old", "10.0.0.1")
    old.count(1, 0)
    old.count(1, 0)
    old.count(999, 5)
    clients.client(None, "10.0.0.2").count(3, 99)
    clients.client("odd", "10.0.0.3").count(0, -1)
    save_clients(tmp_path, clients.snapshot())
    saved = json.loads((tmp_path / FILE_NAME).read_text())
    assert saved == clients.snapshot()
    assert saved["version"] == 1
    assert saved["since_ms"] == 1000
    by_id = {client["client_id"]: client for client in saved["clients"]}
    assert by_id["old"]["addresses"] == ["10.0.0.1"]
    assert by_id["old"]["requests"] == [
        {"api": "FETCH", "api_key": 1, "version": 0, "count": 2, "served": True},
        {"api": None, "api_key": 999, "version": 5, "count": 1, "served": False},
    ]
    assert by_id[None]["requests"][0]["served"] is False
    assert by_id["odd"]["requests"][0]["version"] == -1


def test_number_of_clients_and_addresses_is_bounded():
    clients = ClientVersions(PlainRuntime(lambda: 0))
    for number in range(MAX_CLIENTS + 50):
        clients.client(f"c{number}", "a").count(0, 0)
    for number in range(MAX_ADDRESSES + 5):
        clients.client("c0", f"address-{number}")
    described = clients.snapshot()["clients"]
    assert len(described) == MAX_CLIENTS + 1
    by_id = {client["client_id"]: client for client in described}
    assert by_id[OTHER]["requests"][0]["count"] == 50
    assert len(by_id["c0"]["addresses"]) == MAX_ADDRESSES


def test_number_of_request_kinds_per_client_is_bounded():
    counts = ClientCounts()
    for version in range(MAX_REQUEST_KINDS + 50):
        counts.count(7000, version)
    assert len(counts.requests) == MAX_REQUEST_KINDS + 1
    assert sum(counts.requests.values()) == MAX_REQUEST_KINDS + 50
    assert counts.knows(7000)


def test_throttled_clients_are_reported():
    clients = ClientVersions(PlainRuntime(lambda: 0))
    clients.client("calm", "a")
    greedy = clients.client(None, "a")
    greedy.throttled, greedy.throttled_ms = 2, 1500
    assert clients.throttled() == [("", 2, 1500)]
    by_id = {each["client_id"]: each for each in clients.snapshot()["clients"]}
    assert (by_id[None]["throttled"], by_id[None]["throttled_ms"]) == (2, 1500)
    assert by_id["calm"]["throttled"] == 0


def test_long_client_ids_are_truncated():
    clients = ClientVersions(PlainRuntime(lambda: 0))
    counts = clients.client("a" * 30_000, "a")
    assert clients.client("a" * 30_000, "a") is counts
    assert max(len(each["client_id"]) for each in clients.snapshot()["clients"]) < 300


def test_a_client_without_an_id_and_one_with_an_empty_id_are_one_series():
    clients = ClientVersions(PlainRuntime(lambda: 0))
    for client_id, throttled_ms in ((None, 10), ("c", 20), ("", 30)):
        counts = clients.client(client_id, "a")
        counts.throttled, counts.throttled_ms = 1, throttled_ms
    assert clients.throttled() == [("", 2, 40), ("c", 1, 20)]
