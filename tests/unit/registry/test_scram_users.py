"""SCRAM credentials of users: nodes, quotas beside them, and the cache of a broker."""

import json
from pathlib import Path

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.registry.scram_users import (
    ScramCredentials,
    delete_credentials,
    scram_user,
    scram_users,
    write_credentials,
)
from zkbroker.registry.user_configs import (
    DEFAULT,
    ConfigEntity,
    UserConfigs,
    change_entity_config,
    read_user_configs,
)
from zkbroker.security.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from zkbroker.security.sasl.scram import HASHES, make_credential, parse_credential

GENUINE = Path(__file__).parents[2] / "golden" / "data" / "security" / "znodes-security-2.3.0.txt"
RATE = "producer_byte_rate"


def credential(mechanism=SCRAM_SHA_256, password="pw", iterations=4096):
    return make_credential(HASHES[mechanism], password, iterations)


def recorded(step):
    """Return path and data of the node that the genuine tool wrote in a recorded step."""
    text = GENUINE.read_text()
    part = text[text.index(f"## {step}") :]
    line = next(line for line in part.splitlines() if line.startswith("  zk: "))
    path, _, data = line.removeprefix("  zk: ").partition("  ->  ")
    return path.split(" ")[1] if path.startswith("set") else path.removeprefix("create "), data


@pytest.mark.parametrize(
    ("step", "user", "passwords"),
    [
        (
            "SCRAM: user alice, both mechanisms",
            "alice",
            {SCRAM_SHA_256: "alice-secret", SCRAM_SHA_512: "alice-secret"},
        ),
        ("SCRAM: user bob, SHA-256 with default iterations", "bob", {SCRAM_SHA_256: "bob-secret"}),
        ("SCRAM: a user name that needs encoding", "CN=x y,O=é*%/z@h", {SCRAM_SHA_256: "p,w=x d"}),
    ],
)
def test_genuine_credentials_are_read_and_written(session, step, user, passwords):
    path, data = recorded(step)
    session.create(path, data.encode(), parents=True)
    stored = {
        name: parse_credential(text, HASHES[name])
        for name, text in json.loads(data)["config"].items()
    }
    assert scram_user(session, user) == {name: each.iterations for name, each in stored.items()}
    made = {
        name: make_credential(
            HASHES[name], passwords[name], each.iterations, lambda each=each: each.salt
        )
        for name, each in stored.items()
    }
    assert made == stored
    other = InstantSession()
    write_credentials(other, user, made)
    assert json.loads(other.get(path)[0]) == json.loads(data)


def test_credential_deletion_matches_genuine_tool(session):
    path, data = recorded("SCRAM: user alice, both mechanisms")
    session.create(path, data.encode(), parents=True)
    delete_credentials(session, "alice", [SCRAM_SHA_512])
    assert session.get(path)[0].decode() == recorded("SCRAM: SHA-512 of alice deleted")[1]


def test_credential_changes_keep_quotas_and_other_credentials(session):
    alice = ConfigEntity(user="alice")
    change_entity_config(session, alice, {RATE: "1024"})
    write_credentials(session, "alice", {SCRAM_SHA_256: credential()})
    write_credentials(session, "alice", {SCRAM_SHA_512: credential(SCRAM_SHA_512)})
    delete_credentials(session, "alice", [SCRAM_SHA_256])
    assert scram_users(session) == {"alice": {SCRAM_SHA_512: 4096}}
    assert read_user_configs(session).user("alice")[RATE] == "1024"
    delete_credentials(session, "alice", [SCRAM_SHA_512])
    assert scram_users(session) == {}
    assert read_user_configs(session).user("alice") == {RATE: "1024"}


def configs(**users):
    return UserConfigs({ConfigEntity(user=name): each for name, each in users.items()})


def test_credentials_are_found_by_mechanism():
    known, made = ScramCredentials(), credential()
    assert known.credential(SCRAM_SHA_256, "alice") is None
    known.take(configs(alice={SCRAM_SHA_256: made.text()}, bob={RATE: "1"}))
    assert known.credential(SCRAM_SHA_256, "alice") == made
    first = known.credential(SCRAM_SHA_256, "alice")
    assert known.credential(SCRAM_SHA_512, "alice") is None
    assert known.credential(SCRAM_SHA_256, "bob") is None
    known.take(configs(alice={SCRAM_SHA_256: made.text()}))
    assert known.credential(SCRAM_SHA_256, "alice") is first
    known.take(configs())
    assert known.credential(SCRAM_SHA_256, "alice") is None


def test_client_and_default_entities_are_not_users():
    known, text = ScramCredentials(), credential().text()
    known.take(
        UserConfigs(
            {
                ConfigEntity(user=DEFAULT): {SCRAM_SHA_256: text},
                ConfigEntity(user="alice", client="c"): {SCRAM_SHA_256: text},
                ConfigEntity(client="alice"): {SCRAM_SHA_256: text},
            }
        )
    )
    assert known.credential(SCRAM_SHA_256, "alice") is None
    assert known.credential(SCRAM_SHA_256, "<default>") is None


def test_invalid_credential_is_ignored_and_logged_once(caplog, session):
    known, weak = ScramCredentials(), credential().text().replace("4096", "1000")
    for _ in range(2):
        known.take(configs(alice={SCRAM_SHA_256: weak}))
    assert known.credential(SCRAM_SHA_256, "alice") is None
    assert len(caplog.records) == 1
    assert "iterations=1000" in caplog.text
    assert weak.split(",")[1] not in caplog.text
    change_entity_config(session, ConfigEntity(user="alice"), {SCRAM_SHA_256: weak})
    assert scram_users(session) == {"alice": {SCRAM_SHA_256: None}}


def test_usual_iterations_are_the_most_frequent():
    known = ScramCredentials()
    assert known.usual_iterations(SCRAM_SHA_256) == 4096
    known.take(
        configs(
            a={SCRAM_SHA_256: credential(iterations=5000).text()},
            b={SCRAM_SHA_256: credential(iterations=5000).text()},
            c={SCRAM_SHA_256: credential().text()},
        )
    )
    assert known.usual_iterations(SCRAM_SHA_256) == 5000
    assert known.usual_iterations(SCRAM_SHA_512) == 4096
