"""Settings of users, clients and addresses: writes, notices, reads and the watch."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.instant_session import InstantSession, children_data
from tests.support.zookeeper import until
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.user_configs import (
    DEFAULT,
    ConfigEntity,
    UserConfigs,
    UserConfigsWatch,
    change_entity_config,
    decode_name,
    encode_name,
    entity_config,
    read_user_configs,
)

GENUINE = Path(__file__).parents[2] / "golden" / "data" / "security" / "znodes-security-2.3.0.txt"

ALICE = ConfigEntity(user="alice")
ALICE_C1 = ConfigEntity(user="alice", client="c1")
RATE = "producer_byte_rate"
SCRAM = "SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("CN=x y,O=é*%/z@h", "CN%3Dx%20y%2CO%3D%C3%A9%2A%25%2Fz%40h"),
        ("a b/c:d", "a%20b%2Fc%3Ad"),
        ("a.b-c_d~e+f", "a.b-c_d%7Ee%2Bf"),
        ("<default>", "%3Cdefault%3E"),
        (DEFAULT, "<default>"),
    ],
)
def test_names_have_genuine_encoding(name, node):
    assert encode_name(name) == node
    assert decode_name(node) == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_entity_paths_round_trip(name):
    for entity in (ConfigEntity(user=name), ConfigEntity(user=DEFAULT, client=name)):
        assert ConfigEntity.parse(entity.path) == entity


@pytest.mark.parametrize(
    "path",
    ["users", "users/", "users/a b", "users/a/clients", "users/../x", "topics/t", "ips/..", ""],
)
def test_invalid_entity_paths_are_not_parsed(path):
    assert ConfigEntity.parse(path) is None


def test_addresses_are_not_encoded():
    entity = ConfigEntity(ip="::1")
    assert entity.path == "ips/::1"
    assert ConfigEntity.parse("ips/::1") == entity
    assert ConfigEntity.parse("ips/<default>") == ConfigEntity(ip=DEFAULT)


def test_change_keeps_other_settings_and_adds_notice(session):
    session.create(ALICE.node, b'{"version":1,"config":{"SCRAM-SHA-256":"s","other":"1"}}')
    change_entity_config(session, ALICE, {RATE: "5", "other": None})
    assert entity_config(session, ALICE) == {SCRAM: "s", RATE: "5"}
    notices = children_data(session, paths.CONFIG_CHANGES)
    assert notices == [b'{"version":2,"entity_path":"users/alice"}']


def test_parents_of_client_node_are_empty(session):
    change_entity_config(session, ALICE_C1, {RATE: "5"})
    assert session.get("/config/users/alice")[0] == b""
    assert session.get("/config/users/alice/clients")[0] == b""
    assert read_user_configs(session) == UserConfigs({ALICE_C1: {RATE: "5"}})


def test_node_without_settings_is_kept(session):
    change_entity_config(session, ALICE, {RATE: "5"})
    change_entity_config(session, ALICE, {RATE: None})
    assert session.get(ALICE.node)[0] == b'{"version":1,"config":{}}'
    assert read_user_configs(session) == UserConfigs({})


def test_concurrent_write_is_kept(session, other):
    change_entity_config(session, ALICE, {RATE: "5"})
    once = [lambda: change_entity_config(other, ALICE, {SCRAM: "s"})]
    session.before = lambda: once.pop()() if once else None
    change_entity_config(session, ALICE, {RATE: "6"})
    assert entity_config(session, ALICE) == {RATE: "6", SCRAM: "s"}


def test_credentials_are_never_shown(session, caplog):
    session.create(ALICE.node, b'{"version":1,"config":["salt=secret"]}')
    with pytest.raises(RegistryError, match="not shown") as raised:
        entity_config(session, ALICE)
    assert read_user_configs(session) == UserConfigs({})
    assert "/config/users/alice holds no settings" in caplog.text
    assert "secret" not in caplog.text + str(raised.value)
    assert "secret" not in repr(UserConfigs({ALICE: {SCRAM: "secret"}}))


def _tree(marker):
    """Return the nodes below /config of a section of the genuine tools' record."""
    text = GENUINE.read_text()
    section = text[text.index(marker) :]
    line = r"^   P v\d+ (/config/(?:users|clients)/\S+)(?:  ->  (.*))?$"
    return dict(re.findall(line, section, re.MULTILINE))


def test_genuine_config_tree_is_read_and_written():
    genuine = _tree("## tree at the end")
    session = InstantSession()
    for path, data in genuine.items():
        session.create(path, data.encode(), parents=True)
    read = read_user_configs(session).settings
    assert len(read) == 10
    assert read[ConfigEntity(client="a b/c:d")] == {RATE: "5"}
    assert read[ConfigEntity(user=DEFAULT, client=DEFAULT)] == {RATE: "444"}
    assert set(read[ALICE]) == {SCRAM, "request_percentage", RATE, "consumer_byte_rate"}
    assert set(read[ConfigEntity(user="CN=x y,O=é*%/z@h")]) == {SCRAM}
    ours = InstantSession()
    for entity, settings in read.items():
        change_entity_config(ours, entity, settings)
    for path, data in genuine.items():
        if data and data != '{"version":1,"config":{}}':
            assert json.loads(ours.get(path)[0]) == json.loads(data)


@pytest.fixture
def seen(session):
    found = []
    change_entity_config(session, ALICE, {RATE: "5"})
    change_entity_config(session, ALICE_C1, {RATE: "6"})
    watch = UserConfigsWatch(session, found.append)
    watch.start()
    yield found
    watch.close()


def test_watch_reads_only_entities_that_notices_name(session, other, seen):
    assert seen == [UserConfigs({ALICE: {RATE: "5"}, ALICE_C1: {RATE: "6"}})]
    session.asked.clear()
    change_entity_config(other, ALICE_C1, {RATE: "7"})
    until(lambda: seen[-1].settings[ALICE_C1] == {RATE: "7"})
    assert ALICE.node not in session.asked
    change_entity_config(session, ALICE, {RATE: None})
    until(lambda: ALICE not in seen[-1].settings)
    assert ALICE_C1 in seen[-1].settings


def test_other_notices_cause_no_reads(other, seen):
    for note in (b'{"version":2,"entity_path":"brokers/1"}', b"junk"):
        other.create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True)
    change_entity_config(other, ConfigEntity(ip="10.0.0.1"), {"connection_creation_rate": "1"})
    until(lambda: len(seen) > 1)
    assert seen[-1].settings[ConfigEntity(ip="10.0.0.1")] == {"connection_creation_rate": "1"}
    assert seen[-1].user("alice") == {RATE: "5"}


def test_all_is_read_after_outage(session, other, seen):
    session.suspend()
    # Its notice is purged before the connection is back.
    change_entity_config(other, ConfigEntity(client="late"), {RATE: "1"})
    for note in other.children(paths.CONFIG_CHANGES):
        other.delete(f"{paths.CONFIG_CHANGES}/{note}")
    session.reconnect()
    until(lambda: ConfigEntity(client="late") in seen[-1].settings)
