"""A connection as the login gate sees it, and a gate in front of a recording dispatcher."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from zkbroker.broker.authentication import LOGGED_IN, MAX_LOGIN_BYTES, LoginGate
from zkbroker.broker.handlers.sasl import sasl_authenticate, sasl_handshake
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.network.server.session import CloseConnection
from zkbroker.protocol import (
    ApiKey,
    RequestHeader,
    decode_header,
    decode_request,
    encode_request,
    encode_response,
)
from zkbroker.protocol.messages import ApiVersionsResponse, served_versions
from zkbroker.security import ANONYMOUS
from zkbroker.security.sasl import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from zkbroker.security.sasl.broker_mechanisms import Mechanisms
from zkbroker.security.sasl.plain import PlainServer, PlainUsers
from zkbroker.security.sasl.scram import HASHES, ScramCredential, nonce
from zkbroker.security.sasl.scram_server import ScramSecret, ScramServer

LISTENER = "SASL"
REFUSED: dict[int, Any] = {17: sasl_handshake, 36: sasl_authenticate}


class StoredUsers:
    """Credentials in a dict: (mechanism, user) → credential."""

    def __init__(self, stored: Mapping[tuple[str, str], ScramCredential]) -> None:
        self.stored = dict(stored)

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        return self.stored.get((mechanism, user))

    def usual_iterations(self, mechanism: str) -> int:
        return 8192


def mechanisms(
    passwords: Mapping[str, str],
    users: StoredUsers,
    own_nonce: Callable[[], str] = nonce,
) -> Mechanisms:
    """PLAIN and both SCRAMs, in the order of the recorded broker."""
    secret = ScramSecret(b"secret of the test")

    def scram(name: str) -> Callable[[], ScramServer]:
        return lambda: ScramServer(HASHES[name], users, secret, own_nonce)

    known = PlainUsers(passwords)
    return {
        PLAIN: lambda: PlainServer(known),
        SCRAM_SHA_512: scram(SCRAM_SHA_512),
        SCRAM_SHA_256: scram(SCRAM_SHA_256),
    }


class LoginConnection:
    """One connection."""

    def __init__(self) -> None:
        self.address, self.ip, self.listener = "10.0.0.1:5", "10.0.0.1", LISTENER
        self.client_id: str | None = None
        self.principal = ANONYMOUS
        self.login: object = None
        self.context: object = None
        self.last_answer = ""
        self.max_frame_bytes = MAX_LOGIN_BYTES
        self.parked_times = 0

    @contextmanager
    def parked(self, wake: Callable[[], object]) -> Iterator[None]:
        self.parked_times += 1
        yield

    @property
    def logged_in(self) -> bool:
        return self.login is LOGGED_IN

    def let_in(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes


class RecordingDispatcher:
    """Answers ApiVersions, and records the other requests that passed the gate."""

    def __init__(self) -> None:
        self.requests: list[int] = []

    def __call__(self, session: Any, frame: memoryview) -> Sequence[Any] | None:
        header, _ = decode_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            known = header.api_version <= 2
            response = ApiVersionsResponse(0 if known else 35, served_versions() if known else [])
            return encode_response(header.correlation_id, response, header.api_version)
        assert session.logged_in, "a request passed before the login"
        if header.api_key in REFUSED:
            _, request = decode_request(frame)
            refused = REFUSED[header.api_key](request, None)
            return encode_response(header.correlation_id, refused, header.api_version)
        self.requests.append(header.api_key)
        return [b"served"]


class Gate:
    """A login gate without delay, in front of a `RecordingDispatcher`."""

    def __init__(self, enabled: Mechanisms) -> None:
        self.passed = RecordingDispatcher()
        self.waited = 0
        self.counts = BrokerMetrics()
        self.gate = LoginGate(
            {LISTENER: enabled},
            self.passed,
            max_frame_bytes=1000,
            wait=self._wait,
            offload=lambda function: function(),
            metrics=self.counts,
        )

    def _wait(self, session: object) -> None:
        self.waited += 1

    def ask(self, connection: LoginConnection, frame: bytes) -> bytes | None:
        """Send a frame without its length; return the answer's, None if the connection ended."""
        if connection.last_answer:
            return None
        try:
            parts = self.gate.handle(connection, memoryview(bytearray(frame)))
        except CloseConnection as error:
            connection.last_answer = str(error)
            return None
        answer = b"".join(parts or ())
        return answer if answer == b"served" else answer[4:]


def request_frame(request: Any, version: int, correlation_id: int = 7) -> bytes:
    """A request without its length."""
    header = RequestHeader(request.api_key, version, correlation_id, "c")
    return b"".join(encode_request(header, request))[4:]  # type: ignore[arg-type]
