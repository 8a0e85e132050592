"""A connection is announced after its login; refused logins end the client or are retried."""

import kazoo.exceptions as kz
import pytest
from kazoo.protocol.states import KeeperState

from zkbroker.config.secret import Secret
from zkbroker.config.zookeeper_security import UNPROTECTED, ZooKeeperLogin, ZooKeeperSecurity
from zkbroker.errors import RegistryError
from zkbroker.zookeeper import login
from zkbroker.zookeeper.login import ZkLoginGate, login_options, require_sasl

KAFKA = ZooKeeperLogin("kafka", Secret("pw"))
SASL = ZooKeeperSecurity(sasl=KAFKA)
DIGEST = ZooKeeperSecurity(digest=KAFKA)


def test_login_options_of_client():
    assert login_options(UNPROTECTED) == {}
    assert login_options(DIGEST) == {"auth_data": {("digest", "kafka:pw")}}
    assert login_options(SASL) == {
        "sasl_options": {"mechanism": "DIGEST-MD5", "username": "kafka", "password": "pw"}
    }


def test_missing_sasl_library_is_named(monkeypatch):
    monkeypatch.setattr(login.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RegistryError, match=r"pip install 'zkbroker\[security\]'"):
        require_sasl()


def test_connected_is_announced_after_login():
    gate = ZkLoginGate(SASL, "h:1", pytest.fail)
    assert gate.passes(KeeperState.CONNECTING)
    with gate.login():
        assert gate.passes(KeeperState.CONNECTING)
        assert not gate.passes(KeeperState.CONNECTED)
    assert gate.held() == [KeeperState.CONNECTED]
    assert gate.passes(KeeperState.CONNECTED)
    assert gate.held() == []


def refused(gate, error, cause=None):
    with pytest.raises(kz.KazooException) as raised, gate.login():
        gate.passes(KeeperState.CONNECTED)
        raise error from cause
    assert gate.held() == []
    return type(raised.value)


def test_only_first_login_refusal_ends_client():
    reasons = []
    gate = ZkLoginGate(SASL, "h:1", reasons.append)
    assert refused(gate, kz.AuthFailedError()) is kz.AuthFailedError
    assert reasons[0].startswith("ZooKeeper at h:1 refused the login of kafka (SASL): check its")
    with gate.login():
        pass
    assert refused(gate, kz.AuthFailedError()) is kz.ConnectionDropped
    assert refused(gate, kz.SessionClosedRequireSaslError()) is kz.ConnectionDropped
    assert len(reasons) == 1


def test_connection_lost_during_login_is_retried():
    gate = ZkLoginGate(SASL, "h:1", pytest.fail)
    dropped = kz.ConnectionDropped("closed")
    assert refused(gate, kz.AuthFailedError(), dropped) is kz.ConnectionDropped
    assert refused(gate, dropped) is kz.ConnectionDropped
    assert refused(gate, kz.SessionExpiredError()) is kz.SessionExpiredError


@pytest.mark.parametrize(
    ("security", "error", "message"),
    [
        (UNPROTECTED, kz.SessionClosedRequireSaslError(), "requires a SASL login, and none is set"),
        (SASL, kz.SessionClosedRequireSaslError(), "refused the login of kafka (SASL)"),
        (SASL, login.SaslNotAnswered(), "accepts no SASL logins: give its server a JAAS file with"),
        (DIGEST, kz.AuthFailedError(), "refused the login of kafka (digest): check zookeeper.auth"),
    ],
)
def test_refusal_names_setting_to_change(security, error, message):
    reasons = []
    refused(ZkLoginGate(security, "h:1", reasons.append), error)
    assert message in reasons[0]
    assert "pw" not in reasons[0].replace("password", "")
