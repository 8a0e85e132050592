"""Settings of users, clients and addresses: written, noted, read, watched."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.instant_session import InstantSession
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
def test_names_are_encoded_as_genuine_tools_encode_them(name, node):
    assert encode_name(name) == node
    assert decode_name(node) == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_name_comes_back(name):
    for entity in (ConfigEntity(user=name), ConfigEntity(user=DEFAULT, client=name)):
        assert ConfigEntity.parse(entity.path) == entity


@pytest.mark.parametrize(
    "path",
    ["users", "users/", "users/a b", "users/a/clients", "users/../x", "topics/t", "ips/..", ""],
)
def test_what_is_no_entity_is_none(path):
    assert ConfigEntity.parse(path) is None


def test_addresses_stand_as_they_are():
    entity = ConfigEntity(ip="::1")
    assert entity.path == "ips/::1"
    assert ConfigEntity.parse("ips/::1") == entity
    assert ConfigEntity.parse("ips/<default>") == ConfigEntity(ip=DEFAULT)


def test_a_change_keeps_what_it_does_not_name_and_is_noted():
    session = InstantSession()
    session.create(ALICE.node, b'{"version":1,"config":{"SCRAM-SHA-256":"s","other":"1"}}')
    change_entity_config(session, ALICE, {RATE: "5", "other": None})
    assert entity_config(session, ALICE) == {SCRAM: "s", RATE: "5"}
    (note,) = session.children(paths.CONFIG_CHANGES)
    assert session.get(f"{paths.CONFIG_CHANGES}/{note}")[0] == (
        b'{"version":2,"entity_path":"users/alice"}'
    )


def test_a_client_of_a_user_has_parents_without_data():
    session = InstantSession()
    change_entity_config(session, ALICE_C1, {RATE: "5"})
    assert session.get("/config/users/alice")[0] == b""
    assert session.get("/config/users/alice/clients")[0] == b""
    assert read_user_configs(session) == UserConfigs({ALICE_C1: {RATE: "5"}})


def test_an_empty_set_of_settings_stays_as_a_node():
    session = InstantSession()
    change_entity_config(session, ALICE, {RATE: "5"})
    change_entity_config(session, ALICE, {RATE: None})
    assert session.get(ALICE.node)[0] == b'{"version":1,"config":{}}'
    assert read_user_configs(session) == UserConfigs({})


def test_a_write_between_reading_and_writing_is_kept():
    session, other = InstantSession(), None
    change_entity_config(session, ALICE, {RATE: "5"})
    other = InstantSession(session.server)
    once = [lambda: change_entity_config(other, ALICE, {SCRAM: "s"})]
    session.before = lambda: once.pop()() if once else None
    change_entity_config(session, ALICE, {RATE: "6"})
    assert entity_config(session, ALICE) == {RATE: "6", SCRAM: "s"}


def test_a_credential_is_never_shown(caplog):
    session = InstantSession()
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


def test_the_tree_of_genuine_tools_is_read_and_written_alike():
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
def watched():
    session, seen = InstantSession(), []
    change_entity_config(session, ALICE, {RATE: "5"})
    change_entity_config(session, ALICE_C1, {RATE: "6"})
    watch = UserConfigsWatch(session, seen.append)
    watch.start()
    yield session, seen
    watch.close()


def test_a_watch_reads_only_what_a_notice_names(watched):
    session, seen = watched
    assert seen == [UserConfigs({ALICE: {RATE: "5"}, ALICE_C1: {RATE: "6"}})]
    session.asked.clear()
    change_entity_config(InstantSession(session.server), ALICE_C1, {RATE: "7"})
    until(lambda: seen[-1].settings[ALICE_C1] == {RATE: "7"})
    assert ALICE.node not in session.asked
    change_entity_config(session, ALICE, {RATE: None})
    until(lambda: ALICE not in seen[-1].settings)
    assert ALICE_C1 in seen[-1].settings


def test_notices_of_other_things_read_nothing(watched):
    session, seen = watched
    other = InstantSession(session.server)
    for note in (b'{"version":2,"entity_path":"brokers/1"}', b"junk"):
        other.create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True)
    change_entity_config(other, ConfigEntity(ip="10.0.0.1"), {"connection_creation_rate": "1"})
    until(lambda: len(seen) > 1)
    assert seen[-1].settings[ConfigEntity(ip="10.0.0.1")] == {"connection_creation_rate": "1"}
    assert seen[-1].user("alice") == {RATE: "5"}


def test_after_an_outage_everything_is_read_again(watched):
    session, seen = watched
    other = InstantSession(session.server)
    session.suspend()
    # Its notice is purged before the connection is back.
    change_entity_config(other, ConfigEntity(client="late"), {RATE: "1"})
    for note in other.children(paths.CONFIG_CHANGES):
        other.delete(f"{paths.CONFIG_CHANGES}/{note}")
    session.reconnect()
    until(lambda: ConfigEntity(client="late") in seen[-1].settings)
