"""Recorded logins to a genuine broker get the same answers from our gate, byte for byte.

The broker's nonces are those of the recording. The recorded broker refuses a user without
credential at once; ours demands a proof first, so that users cannot be guessed: that answer is
left out here, and has a test of its own.
"""

import gzip
import json
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.login_session import Gate, LoginConnection, StoredUsers, mechanisms
from zkbroker.protocol import ApiKey
from zkbroker.security.sasl import SCRAM_SHA_256
from zkbroker.security.sasl.scram import SHA_256, make_credential, parse_credential
from zkbroker.security.sasl.scram_client import ScramClient

DATA = Path(__file__).parent / "data" / "security" / "sasl-2.3.0.jsonl.gz"
ALICE = (
    "salt=MTIxaDdsN2V6MW5uZW9pcnRhNWNueG5rMjI=,"
    "stored_key=XCX+rZqod2Mk+L1RdzGmMUQJ42RrVbhu5AEFLY33tcM=,"
    "server_key=qGFFGBvq7NBiWqALjnrWSs2/YxErW1nbqvp5ydlx53U=,iterations=8192"
)
ENTRIES = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
SESSIONS = {
    f"{number} {entries[0]['step']}": entries
    for number, (_, group) in enumerate(groupby(ENTRIES, lambda each: each["conn"]))
    for entries in [list(group)]
}


def is_of_the_login(entry):
    return (
        entry["api_key"] in (None, 17, 36)
        or "before any" in entry["step"]
        or (entry["api_key"] == ApiKey.METADATA and "in place of" in entry["step"])
    )


def tokens_of_broker(entries):
    """Yield the broker's own parts of its nonces, in order."""
    for entry in entries:
        decoded = (entry["decoded"] or {}).get("response")
        text = decoded.get("auth_bytes", "") if isinstance(decoded, dict) else decoded
        if isinstance(text, str) and text.startswith("r="):
            request = entry["decoded"]["request"]
            request = request["auth_bytes"] if isinstance(request, dict) else request
            yield text[2:].partition(",")[0].removeprefix(request.rpartition("r=")[2])


@pytest.mark.parametrize("name", SESSIONS)
def test_recorded_logins_get_genuine_answers(name):
    entries = SESSIONS[name]
    nonces = tokens_of_broker(entries)
    users = StoredUsers({(SCRAM_SHA_256, "alice"): parse_credential(ALICE, SHA_256)})
    gate = Gate(mechanisms({"alice": "alice-secret"}, users, lambda: next(nonces, "none")))
    connection = LoginConnection()
    compared = 0
    for entry in entries:
        expected = None if entry["response"] is None else bytes.fromhex(entry["response"])
        answer = gate.ask(connection, bytes.fromhex(entry["request"]))
        unanswered = entry["api_key"] is None and expected is None
        if unanswered and entry["decoded"]["request"].startswith("n,,n="):
            assert answer is not None
            assert answer.endswith(b",i=8192")
        elif is_of_the_login(entry):
            compared += 1
            assert answer == expected, entry["name"]
        elif entry["api_key"] == ApiKey.API_VERSIONS:
            code = entry["decoded"]["response"]["error"]
            assert answer is not None
            assert answer[:6] == expected[:4] + code.to_bytes(2, "big")
        else:
            assert answer == b"served"
    assert compared
    closed = entries[-1]["response"] is None or "broker closed" in entries[-1]["note"]
    if closed and "n,,n=" not in str(entries[-1]["decoded"]["request"]):
        assert connection.last_answer


def test_every_recorded_connection_is_replayed():
    assert sum(map(len, SESSIONS.values())) == len(ENTRIES)
    assert len(SESSIONS) > 25


@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_unknown_user_is_refused_like_wrong_password(user):
    users = StoredUsers({(SCRAM_SHA_256, "alice"): parse_credential(ALICE, SHA_256)})
    gate = Gate(mechanisms({}, users))
    connection = LoginConnection()
    mechanism = SCRAM_SHA_256.encode()
    handshake = (
        bytes.fromhex("0011000000000001ffff") + len(mechanism).to_bytes(2, "big") + mechanism
    )
    assert gate.ask(connection, handshake)
    client = ScramClient(SHA_256, user, "wrong")
    first = gate.ask(connection, client.first())
    assert first is not None
    proof = client.evaluate(first)
    assert proof is not None
    assert gate.ask(connection, proof) is None
    assert "invalid credentials" in connection.last_answer
    assert "alice" not in connection.last_answer


def scram_exchanges():
    """Yield the four messages of each successful exchange: first and final of client and broker."""
    for name, entries in SESSIONS.items():
        texts = []
        for entry in entries:
            if entry["api_key"] in (None, 36):
                for side in ("request", "response"):
                    value = entry["decoded"][side]
                    texts.append(value["auth_bytes"] if isinstance(value, dict) else value)
        if len(texts) == 4 and str(texts[3]).startswith("v="):
            yield pytest.param(texts, id=name)


EXCHANGES = list(scram_exchanges())


def test_recording_has_successful_exchanges():
    assert len(EXCHANGES) == 4


@pytest.mark.parametrize("texts", EXCHANGES)
def test_client_sends_genuine_scram_messages(texts):
    own = texts[0].rpartition("r=")[2]
    client = ScramClient(SHA_256, "alice", "alice-secret", lambda: own)
    assert client.first().decode() == texts[0]
    assert client.evaluate(texts[1].encode()).decode() == texts[2]
    assert client.evaluate(texts[3].encode()) is None
    assert client.complete


def test_stored_credential_equals_genuine_one():
    stored = parse_credential(ALICE, SHA_256)
    made = make_credential(SHA_256, "alice-secret", 8192, lambda: stored.salt)
    assert made.text() == ALICE
