"""TLS to a real ZooKeeper, with and without certificates of clients, on both runtimes."""

import pytest

from tests.support.certificates import Authority
from tests.support.secure_zookeeper import SecureZooKeeper
from tests.support.zookeeper import expire, until
from zkbroker.config.zookeeper_security import take_zookeeper_security
from zkbroker.errors import RegistryError
from zkbroker.zookeeper import SessionState, ZkLoginRefused, ZkSession
from zkbroker.zookeeper.acls import ALL, READ, Grant

PASSWORD = "store-password"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority):
    """Wants certificates of its clients on the port with TLS; the other one is plain."""
    stores = tmp_path_factory.mktemp("server")
    with SecureZooKeeper(
        stores / "zk",
        {"kafka": "pw"},
        keystore=authority.issue("zookeeper", hosts=("localhost", "127.0.0.1")).pkcs12(
            stores, PASSWORD
        ),
        truststore=authority.trusted_pkcs12(stores, PASSWORD),
        store_password=PASSWORD,
    ) as started:
        yield started


@pytest.fixture(scope="module")
def own(stores, authority):
    """Properties of a client that the server trusts."""
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": authority.trusted(stores),
        "zookeeper.ssl.keystore.location": authority.issue("CN=broker,O=Kafka").pem(stores),
        "zookeeper.set.acl": "true",
    }


def security(properties):
    return take_zookeeper_security(properties)[0]


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_certificate_owns_its_nodes(server, own, runtime):
    connect = f"{server.tls_connect_string}/{runtime}"
    with ZkSession(connect, security=security(own), runtime=runtime) as session:
        session.create("/brokers/ids", parents=True)
        acl, _ = session.acls(["/brokers/ids"])[0]
        assert acl == {
            Grant("x509", "CN=broker,O=Kafka", ALL),
            Grant("world", "anyone", READ),
        }
        # More than one record of TLS, and many answers in one.
        for number in range(3):
            session.create(f"/brokers/ids/{number}", bytes(100_000 + number))
        found = session.get_many([f"/brokers/ids/{number % 3}" for number in range(200)])
        assert [len(data) for data, _ in found[:3]] == [100_000, 100_001, 100_002]
        states = []
        session.on_state(states.append)
        server.restart()
        until(lambda: states[-1:] == [SessionState.CONNECTED])
        assert len(session.children("/brokers/ids")) == 3


def test_expired_session_is_replaced_over_tls(server, own):
    with ZkSession(server.tls_connect_string, security=security(own)) as session:
        states = []
        session.on_state(states.append)
        plain = ZkSession(server.connect_string)
        plain._client = session._client
        expire(plain)
        until(lambda: SessionState.LOST in states and states[-1] is SessionState.CONNECTED)
        assert session.children("/")


def test_pkcs12_stores_are_accepted(server, own, stores, authority):
    given = {
        **own,
        "zookeeper.ssl.keystore.location": authority.issue("broker").pkcs12(stores, "secret"),
        "zookeeper.ssl.keystore.password": "secret",
        "zookeeper.ssl.truststore.location": authority.trusted_pkcs12(stores, "secret"),
        "zookeeper.ssl.truststore.password": "secret",
    }
    with ZkSession(server.tls_connect_string, security=security(given)) as session:
        assert session.children("/")


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_tls_refusals_are_explained(server, own, stores, runtime):
    def refusal(changes):
        given = {key: text for key, text in {**own, **changes}.items() if text}
        session = ZkSession(
            server.tls_connect_string,
            security=security(given),
            connect_timeout_ms=20_000,
            runtime=runtime,
        )
        with pytest.raises(ZkLoginRefused) as refused:
            session.start()
        return str(refused.value)

    stranger = Authority("Stranger")
    text = refusal({"zookeeper.ssl.truststore.location": stranger.trusted(stores)})
    assert "signed by an authority that is not trusted" in text
    assert "into zookeeper.ssl.truststore.location" in text
    text = refusal({"zookeeper.ssl.keystore.location": "", "zookeeper.set.acl": ""})
    assert "set zookeeper.ssl.keystore.location" in text
    text = refusal({"zookeeper.ssl.keystore.location": stranger.issue("x").pem(stores)})
    assert "no TLS with ZooKeeper at" in text


def test_plain_and_tls_port_mixed_up_is_reported(server, own):
    plain = ZkSession(server.tls_connect_string, connect_timeout_ms=1500)
    with pytest.raises(RegistryError, match=r"its port for TLS \(zookeeper\.ssl\.client\.enable"):
        plain.start()
    encrypted = ZkSession(server.connect_string, security=security(own), connect_timeout_ms=1500)
    with pytest.raises(RegistryError, match=r"its plain port \(zookeeper\.ssl\.client\.enable"):
        encrypted.start()
