from zkbroker.cluster.listeners import keep_ports, parse_listeners


def test_announced_listeners_are_parsed():
    found = parse_listeners("SSL://[::1]:9093,PLAINTEXT://h:9092")
    assert found == {"SSL": ("::1", 9093), "PLAINTEXT": ("h", 9092)}
    assert parse_listeners("") == {}


def test_chosen_ports_are_kept():
    properties = {"port": "0", "listeners": "ssl://127.0.0.1:0, PLAINTEXT://127.0.0.1:7"}
    keep_ports(properties, None, {})
    assert properties["port"] == "0"
    keep_ports(properties, ("127.0.0.1", 9093), {"SSL": ("127.0.0.1", 9093)})
    assert properties["port"] == "9093"
    assert properties["listeners"] == "ssl://127.0.0.1:9093,PLAINTEXT://127.0.0.1:7"
