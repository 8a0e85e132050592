"""The controller's requests in every version, compared with those of genuine controllers."""

from threading import Event

import pytest

from tests.support.controlled_cluster import PlayedChannels
from tests.support.recorded_frames import GOLDEN, plain, recorded
from zkbroker.controller.answers import BrokerAnswers
from zkbroker.controller.context import ControllerContext, LiveBroker, TermSettings
from zkbroker.controller.requests import RequestBatch, broker_message
from zkbroker.protocol import ApiKey, decode_request
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partition_states import LeaderAndIsr
from zkbroker.replica.fencing import states_in
from zkbroker.runtime.threads import ThreadsRuntime

RUNS = {"0.8.2": "0.8.2.2", "2.1": "2.3.0-ibp2.1", "2.3": "2.3.0"}
T3 = {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1), 3: (0, 2, 1)}


def genuine(level, api_key):
    """The first request of a genuine controller that made topic t3."""
    for _, entry in recorded(GOLDEN / "replication" / f"kafka-{RUNS[level]}.jsonl.gz"):
        if entry["api_key"] == api_key and entry["name"].startswith("a4 "):
            request = decode_request(bytes.fromhex(entry["request"]))[1]
            if {topic for topic, _ in states_in(request)} == {"t3"}:
                return entry["to"], entry["api_version"], request
    raise AssertionError


def in_order(request):
    """Genuine controllers send partitions in the order of their maps."""
    request.partition_states.sort(key=lambda state: state.partition)
    for topic in request.topic_states:
        topic.partition_states.sort(key=lambda state: state.partition)
    for name in ("live_brokers", "live_leaders"):
        if hasattr(request, name):
            getattr(request, name).sort(key=lambda broker: broker.id)
    return request


def batch_for(level, ports, epochs):
    context = ControllerContext()
    for broker, port in ports.items():
        info = BrokerInfo(broker, "127.0.0.1", port)
        context.brokers[broker] = LiveBroker(info, epochs.get(broker, -1))
    context.assignments = {"t3": T3}
    context.states = {
        ("t3", number): LeaderAndIsr(replicas[0], 0, replicas, 1, 0)
        for number, replicas in T3.items()
    }
    channels = PlayedChannels(open_to=set(ports))
    batch = RequestBatch(
        context,
        TermSettings(0, level),
        1,
        BrokerAnswers(context, Event(), Event()),
        channels,
        ThreadsRuntime(),
    )
    return context, channels, batch


@pytest.mark.parametrize("level", RUNS)
def test_requests_equal_those_of_genuine_controllers(level):
    to, version, leader_and_isr = genuine(level, ApiKey.LEADER_AND_ISR)
    metadata_to, metadata_version, update_metadata = genuine(level, ApiKey.UPDATE_METADATA)
    ports = {leader.id: leader.port for leader in leader_and_isr.live_leaders}
    epochs = {to: leader_and_isr.broker_epoch}
    if metadata_to != to:
        epochs[metadata_to] = update_metadata.broker_epoch
    _, channels, batch = batch_for(level, ports, epochs)
    keys = [("t3", number) for number in T3]
    for key in keys:
        batch.decided(key, [to], new=True)
    batch.metadata(keys, [metadata_to])
    batch.flush()
    ours = {each.request.api_key: each for each in channels.sent}
    assert ours[ApiKey.LEADER_AND_ISR].version == version
    assert ours[ApiKey.UPDATE_METADATA].version == metadata_version
    for key, theirs in (
        (ApiKey.LEADER_AND_ISR, leader_and_isr),
        (ApiKey.UPDATE_METADATA, update_metadata),
    ):
        each = ours[key]
        assert plain(in_order(each.request), each.version) == plain(in_order(theirs), each.version)


def test_batch_sends_one_request_of_each_kind_in_order():
    _, channels, batch = batch_for("2.3", {0: 1, 1: 2}, {})
    batch.stop(("t3", 0), [1], delete=True)
    batch.stop(("t3", 0), [1], delete=False)
    batch.metadata([("t3", 1), ("t3", 2)])
    batch.decided(("t3", 1), [1])
    batch.decided(("t3", 2), [1, 7])
    batch.brokers_changed([0, 1])
    batch.flush()
    assert channels.kinds() == [
        (1, "UPDATE_METADATA"),
        (1, "LEADER_AND_ISR"),
        (0, "UPDATE_METADATA"),
        (1, "UPDATE_METADATA"),
        (1, "STOP_REPLICA"),
        (1, "STOP_REPLICA"),
    ]
    assert [each.request.delete_partitions for each in channels.sent[-2:]] == [False, True]
    channels.sent.clear()
    batch.flush()
    assert channels.sent == []


def test_is_new_survives_later_decision():
    _, channels, batch = batch_for("2.3", {0: 1}, {})
    batch.decided(("t3", 0), [0], new=True)
    batch.decided(("t3", 0), [0])
    batch.flush()
    assert channels.leader_and_isr(("t3", 0))[0].is_new


def test_protocol_level_0_8_2_sends_version_0():
    _, channels, batch = batch_for("0.8.2", {0: 1}, {0: 77})
    batch.decided(("t3", 0), [0])
    batch.metadata([("t3", 0)])
    batch.stop(("t3", 0), [0], delete=True)
    batch.flush()
    assert {each.version for each in channels.sent} == {0}
    assert channels.stopped(0, delete=True) == {("t3", 0)}


def test_endpoints_are_sent_with_security_protocol():
    info = BrokerInfo(
        1, "h", 1, "r",
        ("IN://h:1", "SASL_SSL://[::1]:2"),
        protocols=(("IN", "SSL"), ("SASL_SSL", "SASL_SSL")),
    )  # fmt: skip
    message = broker_message(LiveBroker(info, 3))
    assert message.rack == "r"
    assert [
        (each.listener, each.host, each.port, each.security_protocol) for each in message.endpoints
    ] == [("IN", "h", 1, 1), ("SASL_SSL", "::1", 2, 3)]
