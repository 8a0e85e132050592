import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.scram_secret import scram_secret
from zkbroker.zookeeper.acls import PRIVATE, acl_for


def test_brokers_share_scram_secret(session, other):
    found = scram_secret(session)
    assert len(found) == 32
    assert scram_secret(other) == scram_secret(session) == found
    assert scram_secret(InstantSession(new_server())) != found


def test_only_brokers_may_read_scram_secret():
    assert acl_for(paths.SCRAM_SECRET) == PRIVATE


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":1,"secret":"c2hvcnQ="}', b"[1]"])
def test_invalid_scram_secret_node_is_refused(session, data):
    session.create(paths.SCRAM_SECRET, data, parents=True)
    with pytest.raises(RegistryError, match="/config/scram_secret holds no secret: delete"):
        scram_secret(session)
