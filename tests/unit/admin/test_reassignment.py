import pytest

from tests.support.instant_session import InstantSession
from zkbroker.admin.reassignment import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    decode_partitions,
    decode_target,
    encode_partitions,
    encode_target,
    execute,
    throttled_replicas,
)
from zkbroker.errors import ClientError, ConfigError
from zkbroker.registry import paths, topics
from zkbroker.registry.broker_configs import broker_config
from zkbroker.registry.brokers import BrokerInfo

# As genuine tools of 0.8.2.2 and 2.3.0 wrote them.
GENUINE = (
    b'{"version":1,"partitions":[{"topic":"t2","partition":0,"replicas":[1,2]},'
    b'{"topic":"t2","partition":1,"replicas":[2,0]}]}'
)
GENUINE_ELECTION = (
    b'{"version":1,"partitions":[{"topic":"t3","partition":1},{"topic":"t2","partition":1}]}'
)


def test_genuine_json_round_trips():
    target = {("t2", 0): (1, 2), ("t2", 1): (2, 0)}
    assert decode_target(GENUINE) == target
    assert encode_target(target) == GENUINE
    partitions = [("t3", 1), ("t2", 1)]
    assert decode_partitions(GENUINE_ELECTION) == partitions
    assert encode_partitions(partitions) == GENUINE_ELECTION


def test_log_dirs_are_accepted_only_as_any():
    text = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    )
    assert decode_target(text) == {("t", 0): (1,)}
    with pytest.raises(ConfigError, match="leave log_dirs out"):
        decode_target(text.replace('"any"', '"/data"'))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "this is no reassignment"),
        ("[]", "this is no reassignment"),
        ("[" * 100_000, "this is no reassignment"),
        ('{"partitions":[{"topic":"t","partition":1e999}]}', "this is no reassignment"),
        ('{"partitions":[{"topic":"t","partition":0}]}', "this is no reassignment"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "t-0 needs different"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "t-0 needs different"),
        (
            (
                '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
                '{"topic":"t","partition":0,"replicas":[2]}]}'
            ),
            "t-0 is named twice",
        ),
    ],
)
def test_invalid_reassignment_is_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        decode_target(text)


def test_throttles_name_present_and_new_replicas():
    # As the genuine tool of 2.3.0 did it for t2-2 from [2,0] to [1,2].
    assert throttled_replicas({("t2", 2): (1, 2)}, {("t2", 2): (2, 0)}) == {
        "t2": ("2:2,2:0", "2:1")
    }
    both = {("t", 0): (1, 2), ("t", 1): (3, 1)}
    assert throttled_replicas(both, {("t", 0): (2, 1), ("t", 1): (1,)}) == {"t": ("1:1", "1:3")}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"partitions":[{"topic":"t","partition":1e999}]}']
)
def test_invalid_election_is_refused(text):
    with pytest.raises(ConfigError, match="these are not partitions"):
        decode_partitions(text)


TARGET = {("t", 0): (2, 1)}


@pytest.fixture
def sessions():
    """Two sessions in a cluster of four brokers, with the topics t and other."""
    first = InstantSession()
    for broker in (1, 2, 3, 4):
        info = BrokerInfo(id=broker, host="h", port=9092)
        first.create(paths.broker(broker), info.to_json(), parents=True)
    for topic in ("t", "other"):
        topics.create_topic(first, topic, {0: (1, 3)}, {"retention.ms": "1"})
    return first, InstantSession(first.server)


def before_create(session, what):
    """Let something happen after the throttles of a session's reassignment, before its request."""
    create = session.create

    def late(path, *args, **more):
        if path == paths.REASSIGN_PARTITIONS:
            what()
        return create(path, *args, **more)

    session.create = late


def after_check(session, what):
    """Let something happen when a session has just seen that no reassignment is under way."""
    exists = session.exists

    def early(path, *args, **more):
        found = exists(path, *args, **more)
        if path == paths.REASSIGN_PARTITIONS:
            what()
        return found

    session.exists = early


def throttles(session):
    """Return the settings of the topics and brokers."""
    names = ("t", "other")
    found = {name: dict(topics.topic_config(session, name)) for name in names}
    return found | {broker: broker_config(session, broker) for broker in (1, 2, 3)}


@pytest.mark.parametrize("moment", [before_create, after_check])
@pytest.mark.parametrize("rate", [1000, 2000])
@pytest.mark.parametrize("topic", ["t", "other"])
def test_reassignment_that_came_second_leaves_the_throttles_of_the_first(
    sessions, moment, rate, topic
):
    first, second = sessions
    moment(second, lambda: execute(first, TARGET, throttle=1000))
    with pytest.raises(ClientError, match="is under way"):
        execute(second, {(topic, 0): (3, 4)}, throttle=rate)
    found = throttles(first)
    rates = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}
    assert found == {
        "t": {"retention.ms": "1", LEADER_REPLICAS: "0:1,0:3", FOLLOWER_REPLICAS: "0:2"},
        "other": {"retention.ms": "1"},
        **dict.fromkeys((1, 2, 3), rates),
    }
