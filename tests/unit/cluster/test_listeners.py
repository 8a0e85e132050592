from zkbroker.cluster.listeners import keep_ports, parse_listeners


def test_listeners_are_read_as_they_are_announced():
    found = parse_listeners("SSL://[::1]:9093,PLAINTEXT://h:9092")
    assert found == {"SSL": ("::1", 9093), "PLAINTEXT": ("h", 9092)}
    assert parse_listeners("") == {}


def test_ports_that_were_free_are_kept():
    properties = {"port": "0", "listeners": "ssl://127.0.0.1:0, PLAINTEXT://127.0.0.1:7"}
    keep_ports(properties, None, {})
    assert properties["port"] == "0"
    keep_ports(properties, ("127.0.0.1", 9093), {"SSL": ("127.0.0.1", 9093)})
    assert properties["port"] == "9093"
    assert properties["listeners"] == "ssl://127.0.0.1:9093,PLAINTEXT://127.0.0.1:7"
