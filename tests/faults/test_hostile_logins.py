"""Mutated frames before and during logins change nothing at a broker, and take no memory."""

import random
import socket

import pytest

from tests.support import soak
from tests.support.login_frames import good_frames
from tests.support.mutations import mutated
from tests.support.process import resident_bytes
from tests.support.sasl_cluster import LISTENER, PASSWORD, USER, broker_properties
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.secret import Secret
from zkbroker.config.security import ClientSecurity
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.runtime import get_runtime

_WARM = 1_000
_MOST_GROWTH_BYTES = 16 << 20


def send_mutated(to, chance):
    """Send mutated frames on one connection until the broker closes it; return how many."""
    sent = 0
    with socket.create_connection(to, 10) as connection:
        stream = connection.makefile("rb")
        try:
            for frame in good_frames(chance):
                changed = mutated(frame, chance)
                sent += 1
                connection.sendall(len(changed).to_bytes(4, "big") + changed)
                size = stream.read(4)
                if len(size) < 4:
                    break
                stream.read(int.from_bytes(size, "big"))
        except ConnectionError:
            pass
    return sent


@pytest.mark.parametrize(
    "count", [3_000, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])]
)
def test_mutated_login_frames_do_no_harm(local_cluster, count):
    properties = broker_properties() | {"connection.failed.authentication.delay.ms": "0"}
    count = max(2 * _WARM, soak.part_of(count))
    chance = random.Random(count + soak.SEED)
    with local_cluster(1, properties=properties) as cluster:
        topic = cluster.create_topic()
        (broker,) = cluster.brokers
        to = broker.listeners[LISTENER]
        sent, warm = 0, 0
        while sent < count:
            sent += send_mutated(to, chance)
            if not warm and sent > _WARM:
                warm = resident_bytes(broker.pid)
        assert broker.alive
        assert resident_bytes(broker.pid) - warm < _MOST_GROWTH_BYTES
        log = broker.log_path.read_text()
        assert "Traceback" not in log
        assert "logged in" not in log
        login = SaslLogin(mechanism="PLAIN", username=USER, password=Secret(PASSWORD))
        security = ClientSecurity(protocol="SASL_PLAINTEXT", sasl=login)
        runtime = get_runtime("threads")
        with BrokerConnection(runtime, *to, security=security) as connection:
            topics = connection.request(MetadataRequest(None)).topics
            assert [each.topic for each in topics] == [topic]
