import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.scram_secret import scram_secret
from zkbroker.zookeeper.acls import PRIVATE, acl_for


def test_every_broker_has_the_secret_of_the_first():
    server = new_server()
    first, second = InstantSession(server), InstantSession(server)
    found = scram_secret(first)
    assert len(found) == 32
    assert scram_secret(second) == scram_secret(first) == found
    assert scram_secret(InstantSession(new_server())) != found


def test_only_brokers_may_read_it():
    assert acl_for(paths.SCRAM_SECRET) == PRIVATE


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":1,"secret":"c2hvcnQ="}', b"[1]"])
def test_a_node_that_holds_no_secret_is_said_to(data):
    session = InstantSession(new_server())
    session.create(paths.SCRAM_SECRET, data, parents=True)
    with pytest.raises(RegistryError, match="/config/scram_secret holds no secret: delete"):
        scram_secret(session)
