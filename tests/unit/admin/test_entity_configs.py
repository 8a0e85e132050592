"""Settings of entities: named in the genuine words, checked before they are written."""

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.admin.entity_configs import (
    HIDDEN,
    BrokerEntity,
    Selection,
    TopicEntity,
    change,
    describe,
    shown,
    stored,
    title,
)
from zkbroker.errors import ConfigError, ProtocolError
from zkbroker.registry.topics import create_topic
from zkbroker.registry.user_configs import DEFAULT, ConfigEntity

ALICE = ConfigEntity(user="alice")
RATE = "producer_byte_rate"


@pytest.fixture
def session():
    return InstantSession()


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        (TopicEntity("t"), "topic 't'"),
        (BrokerEntity(0), "brokers '0'"),
        (BrokerEntity(DEFAULT), "default brokers"),
        (ALICE, "user-principal 'alice'"),
        (ConfigEntity(user=DEFAULT, client="c"), "default user-principal, client-id 'c'"),
        (ConfigEntity(ip="10.0.0.1"), "ip '10.0.0.1'"),
    ],
)
def test_titles_match_genuine_tools(entity, text):
    assert title(entity) == text


@pytest.mark.parametrize(
    ("kinds", "names", "entity"),
    [
        (("topics",), ("t",), TopicEntity("t")),
        (("brokers",), ("1",), BrokerEntity(1)),
        (("brokers",), (DEFAULT,), BrokerEntity(DEFAULT)),
        (("users", "clients"), ("alice", DEFAULT), ConfigEntity(user="alice", client=DEFAULT)),
        (("users", "clients"), ("alice", None), None),
    ],
)
def test_selection_names_entity(kinds, names, entity):
    assert Selection(kinds, names).entity == entity


def test_topics_have_no_default_entity():
    with pytest.raises(ConfigError, match="their defaults are the brokers'"):
        _ = Selection(("topics",), (DEFAULT,)).entity


def test_all_entities_of_kind_are_described(session):
    create_topic(session, "bare", {0: [1]})
    create_topic(session, "own", {0: [1]}, {"retention.ms": "1"})
    change(session, BrokerEntity(3), add={"log.cleaner.threads": "2"})
    change(session, ALICE, add={RATE: "5"})
    change(session, ConfigEntity(user="alice", client="c"), add={RATE: "6"})
    change(session, ConfigEntity(user="bob", client="c"), add={RATE: "7"})
    change(session, ConfigEntity(client="c"), add={RATE: "8"})

    def entities(*kinds, names=None):
        found = describe(session, Selection(kinds, names or (None,) * len(kinds)))
        return [entity for entity, _ in found]

    assert entities("topics") == [TopicEntity("own")]
    assert entities("brokers") == [BrokerEntity(3)]
    assert entities("users") == [ALICE]
    assert entities("clients") == [ConfigEntity(client="c")]
    assert len(entities("users", "clients")) == 2
    assert entities("users", "clients", names=("bob", None)) == [
        ConfigEntity(user="bob", client="c")
    ]


def test_unnamed_settings_are_kept(session):
    change(session, ALICE, add={RATE: "5", "request_percentage": "12.5"})
    change(session, ALICE, delete=[RATE], add={"consumer_byte_rate": "7"})
    assert stored(session, ALICE) == {"request_percentage": "12.5", "consumer_byte_rate": "7"}
    change(session, BrokerEntity(DEFAULT), add={"log.cleaner.threads": "2"})
    change(session, BrokerEntity(DEFAULT), add={"num.replica.fetchers": "3"})
    assert stored(session, BrokerEntity(DEFAULT)) == {
        "log.cleaner.threads": "2", "num.replica.fetchers": "3"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("entity", "settings", "message"),
    [
        (ALICE, {"producer_rate": "1"}, "did you mean"),
        (ALICE, {RATE: "fast"}, "give bytes a second, above 0"),
        (ALICE, {RATE: "1_000"}, "give bytes a second, above 0"),
        (ALICE, {RATE: str(2**63)}, "give bytes a second, above 0"),
        (ALICE, {"request_percentage": "inf"}, "give percent of one thread's time, above 0"),
        (ALICE, {"request_percentage": "nan"}, "give percent of one thread's time, above 0"),
        (ConfigEntity(ip="::1"), {RATE: "1"}, "there are connection_creation_rate"),
        (
            ConfigEntity(client="c"),
            {"SCRAM-SHA-256": "password=x"},
            "not a setting of client-id 'c'",
        ),
        (ALICE, {"SCRAM-SHA-256": "hunter2"}, "needs a password"),
        (BrokerEntity(1), {"port": "1"}, "needs a restart"),
    ],
)
def test_invalid_setting_is_refused_and_not_written(session, entity, settings, message):
    with pytest.raises((ConfigError, ProtocolError), match=message) as raised:
        change(session, entity, add=settings)
    assert "hunter2" not in str(raised.value)
    assert stored(session, entity) == {}


def test_password_becomes_hidden_credential(session):
    change(session, ALICE, add={"SCRAM-SHA-512": "iterations=4096,password=hunter2"})
    held = stored(session, ALICE)["SCRAM-SHA-512"]
    assert held.endswith(",iterations=4096")
    assert shown("SCRAM-SHA-512", held) == HIDDEN
    assert shown("x", "encryptedPassword:abc") == HIDDEN
    assert shown(RATE, "5") == "5"
