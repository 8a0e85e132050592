"""Logins that a genuine broker was asked for: the same answers, byte for byte, through the gate.

The broker's nonces are those of the recording. Where the recorded broker tells at once that a user
has no credential, ours asks for a proof, so that nothing tells which users there are: that answer
is left out here, and looked at below.
"""

import gzip
import json
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.login_session import (
    Gate,
    LoginConnection,
    StoredUsers,
    mechanisms,
)
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
    """The parts of the broker's nonces that it chose itself, in order."""
    for entry in entries:
        for name in ("response",):
            decoded = (entry["decoded"] or {}).get(name)
            text = decoded.get("auth_bytes", "") if isinstance(decoded, dict) else decoded
            if isinstance(text, str) and text.startswith("r="):
                asked = entry["decoded"]["request"]
                asked = asked["auth_bytes"] if isinstance(asked, dict) else asked
                yield text[2:].partition(",")[0].removeprefix(asked.rpartition("r=")[2])


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_login_is_answered_by_the_same_bytes(name):
    entries = SESSIONS[name]
    nonces = tokens_of_broker(entries)
    users = StoredUsers({(SCRAM_SHA_256, "alice"): parse_credential(ALICE, SHA_256)})
    gate = Gate(mechanisms({"alice": "alice-secret"}, users, lambda: next(nonces, "none")))
    connection = LoginConnection()
    looked_at = 0
    for entry in entries:
        expected = None if entry["response"] is None else bytes.fromhex(entry["response"])
        answer = gate.ask(connection, bytes.fromhex(entry["request"]))
        if (
            entry["api_key"] is None
            and expected is None
            and entry["decoded"]["request"].startswith("n,,n=")
        ):
            assert answer is not None
            assert answer.endswith(b",i=8192")
        elif is_of_the_login(entry):
            looked_at += 1
            assert answer == expected, entry["name"]
        elif entry["api_key"] == ApiKey.API_VERSIONS:
            code = entry["decoded"]["response"]["error"]
            assert answer is not None
            assert answer[:6] == expected[:4] + code.to_bytes(2, "big")
        else:
            assert answer == b"served"
    assert looked_at
    closed = entries[-1]["response"] is None or "broker closed" in entries[-1]["note"]
    if closed and "n,,n=" not in str(entries[-1]["decoded"]["request"]):
        assert connection.last_answer


def test_every_connection_of_the_recording_is_replayed():
    assert sum(map(len, SESSIONS.values())) == len(ENTRIES)
    assert len(SESSIONS) > 25


@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_a_user_that_does_not_exist_is_answered_like_one_with_another_password(user):
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
    """(client's first, broker's first, client's final, broker's final) of the good ones."""
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


@pytest.mark.parametrize("texts", EXCHANGES)
def test_our_client_says_what_genuine_ones_say(texts):
    own = texts[0].rpartition("r=")[2]
    client = ScramClient(SHA_256, "alice", "alice-secret", lambda: own)
    assert client.first().decode() == texts[0]
    assert client.evaluate(texts[1].encode()).decode() == texts[2]
    assert client.evaluate(texts[3].encode()) is None
    assert client.complete


def test_there_are_good_exchanges():
    assert len(EXCHANGES) == 4


def test_what_is_stored_of_a_password_is_what_the_genuine_tool_stores():
    stored = parse_credential(ALICE, SHA_256)
    made = make_credential(SHA_256, "alice-secret", 8192, lambda: stored.salt)
    assert made.text() == ALICE
