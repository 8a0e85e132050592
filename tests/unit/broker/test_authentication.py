"""The login gate; recorded sessions run through it in `tests/golden/test_sasl_sessions.py`."""

import random
import sys
import tracemalloc

import pytest

from tests.support import soak
from tests.support.login_frames import GOOD, good_frames, handshake, token
from tests.support.login_session import (
    LISTENER,
    Gate,
    LoginConnection,
    StoredUsers,
    mechanisms,
    request_frame,
)
from tests.support.mutations import mutated
from zkbroker.broker.authentication import MAX_LOGIN_BYTES
from zkbroker.errors import ErrorCode
from zkbroker.protocol import MESSAGES, SUPPORTED_VERSIONS, ApiKey, decode_response
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ProduceRequest,
)
from zkbroker.security import ANONYMOUS, Principal
from zkbroker.security.sasl import OAUTHBEARER, PLAIN, SCRAM_SHA_256
from zkbroker.security.sasl.oauthbearer import OAuthBearerServer
from zkbroker.security.sasl.plain import PlainServer
from zkbroker.security.sasl.scram import SHA_256, make_credential
from zkbroker.security.sasl.scram_client import ScramClient

USERS = StoredUsers({(SCRAM_SHA_256, "alice"): make_credential(SHA_256, "s3cret")})
ALICE = Principal("User", "alice")
BEARER = b"n,,\x01auth=Bearer x\x01\x01"


def gate():
    """A gate, and a connection that it has not seen yet."""
    return Gate(mechanisms({"alice": "s3cret"}, USERS)), LoginConnection()


def begun(mechanism=PLAIN):
    """A gate, and a connection after the handshake."""
    entry, connection = gate()
    entry.ask(connection, handshake(mechanism))
    return entry, connection


def test_requests_pass_after_login():
    entry, connection = gate()
    assert connection.max_frame_bytes == MAX_LOGIN_BYTES
    entry.ask(connection, handshake())
    entry.ask(connection, token())
    assert (connection.logged_in, connection.principal) == (True, ALICE)
    assert connection.max_frame_bytes == 1000
    assert entry.ask(connection, request_frame(MetadataRequest([]), 1)) == b"served"
    assert entry.counts.logins == {(LISTENER, PLAIN, True): 1}
    assert entry.waited == 0


def test_tokens_are_bare_frames_after_handshake_v0():
    entry, connection = gate()
    entry.ask(connection, handshake(SCRAM_SHA_256, version=0))
    client = ScramClient(SHA_256, "alice", "s3cret")
    final = entry.ask(connection, client.evaluate(entry.ask(connection, client.first())))
    assert client.evaluate(final) is None
    assert client.complete
    assert connection.principal == ALICE


@pytest.mark.parametrize("key", sorted(SUPPORTED_VERSIONS))
def test_only_api_versions_and_handshake_are_allowed_first(key):
    entry, connection = gate()
    request = MESSAGES[key][0]()
    for version in range(SUPPORTED_VERSIONS[key][1] + 1):
        connection = LoginConnection()
        answer = entry.ask(connection, request_frame(request, version))
        if key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            assert answer is not None
        else:
            assert answer is None
            assert "is not allowed now" in connection.last_answer
    assert entry.passed.requests == []
    assert connection.principal is ANONYMOUS


@pytest.mark.parametrize("key", sorted(SUPPORTED_VERSIONS))
def test_other_request_during_login_ends_it(key):
    for version in range(SUPPORTED_VERSIONS[key][1] + 1):
        entry, connection = begun()
        answer = entry.ask(connection, request_frame(MESSAGES[key][0](), version))
        assert connection.last_answer
        assert not connection.logged_in
        assert entry.passed.requests == []
        assert entry.waited == 1
        assert entry.ask(connection, token()) is None
        if answer is not None and hasattr(MESSAGES[key][1](), "error_code"):
            code = decode_response(key, version, answer)[1].error_code
            expected = (58,) if key == ApiKey.SASL_AUTHENTICATE else (34, 0)
            assert code in expected


def test_illegal_request_gets_error_34_where_its_version_has_the_field():
    for request, version in ((FindCoordinatorRequest("g"), 0), (ApiVersionsRequest(), 0)):
        entry, connection = begun()
        answer = entry.ask(connection, request_frame(request, version))
        _, response = decode_response(request.api_key, version, answer)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    entry, connection = begun()
    assert entry.ask(connection, request_frame(ProduceRequest(acks=0), 0)) is None


def test_gssapi_is_refused_with_the_enabled_mechanisms():
    entry, connection = gate()
    answer = entry.ask(connection, handshake("GSSAPI"))
    _, response = decode_response(ApiKey.SASL_HANDSHAKE, 1, answer)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert entry.waited == 1
    assert entry.counts.logins == {(LISTENER, "", False): 1}


@pytest.mark.parametrize(
    ("mechanism", "make", "sent", "parked"),
    [
        (OAUTHBEARER, lambda: OAuthBearerServer(lambda text: "alice"), BEARER, 1),
        (PLAIN, lambda: PlainServer(lambda *_: True, waits=True), GOOD, 1),
        (PLAIN, lambda: PlainServer(lambda *_: True, waits=False), GOOD, 0),
    ],
)
def test_credentials_that_may_take_long_are_checked_parked(mechanism, make, sent, parked):
    entry, connection = Gate({mechanism: make}), LoginConnection()
    entry.ask(connection, handshake(mechanism))
    entry.ask(connection, token(sent))
    assert connection.parked_times == parked
    assert connection.principal == ALICE


def attack(count, seed):
    """Send mutated frames before and during logins without the password."""
    chance = random.Random(seed)
    entry, _ = gate()
    sent = 0
    while sent < count:
        connection = LoginConnection()
        for frame in good_frames(chance):
            sent += 1
            entry.ask(connection, mutated(frame, chance))
            assert not connection.logged_in
            assert connection.principal is ANONYMOUS
            assert connection.max_frame_bytes == MAX_LOGIN_BYTES
            if connection.last_answer:
                break
    assert entry.passed.requests == []
    assert len(entry.counts.logins) <= 4
    assert entry.waited == sum(entry.counts.logins.values())


def test_10000_mutated_frames_never_log_in():
    attack(10_000, 26)


@pytest.mark.soak
def test_100000_mutated_frames_never_log_in_or_leak_memory():
    attack(2_000, 1)
    tracemalloc.start()
    try:
        attack(1_000, 2)
        before, _ = tracemalloc.get_traced_memory()
        attack(soak.part_of(100_000), 27 + soak.SEED)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 256 * 1024
    assert sys.getrefcount(ANONYMOUS) < 10_000


def test_memory_for_a_long_frame_is_bounded():
    entry, connection = begun(SCRAM_SHA_256)
    tracemalloc.start()
    try:
        assert entry.ask(connection, token(b"n,,n=alice,r=" + b"," * 500_000)) is not None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * MAX_LOGIN_BYTES
    assert connection.last_answer
