"""Markers of transactions, and the checks of a producer's transactional requests."""

import inspect
from types import SimpleNamespace

import gevent
import pytest

from tests.support.handler_services import handler_context, handler_services
from tests.support.logs import append_transactional, started
from tests.support.replicas import Park, PlainRuntime, decided, make_partition
from zkbroker.broker import pacing
from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.broker.handlers.transactions import MarkerHandler, TransactionHandlers
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.transactions import TransactionCoordination
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.coordinator.transactions.markers import TransactionMarkers
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log import TopicPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.codegen import SHORT
from zkbroker.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    UpdateMetadataRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.transactions import (
    TxnPartitionError,
    TxnTopicErrors,
    TxnTopicPartitions,
)
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.protocol.messages.write_txn_markers import TxnMarker, TxnMarkerResult
from zkbroker.records import encode_message_set
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.replica.delayed import Waiters
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.leadership import Leadership
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ConnectionLost

E = ErrorCode
PARK = Park()
KEYS = [TopicPartition("t", 0), TopicPartition("__consumer_offsets", 3)]


@pytest.fixture
def led(tmp_path):
    with started(tmp_path) as manager:
        found = {}
        for key in KEYS:
            log = manager.get_or_create(key)
            found[key] = make_partition(key=key, log=log)
            found[key].become_leader(decided(1, 0, (1,), (1,)))
        yield found


def services(led):
    assignments = {"t": {0: (1,), 1: (1,)}}
    view = SimpleNamespace(assignment=assignments.get)
    made = handler_services(
        led, PlainRuntime(), view=view, partition_count=lambda topic, planned: planned
    )
    made.config.offsets_topic_partitions = 50
    return made


def write(led, *markers):
    ended = []
    groups = SimpleNamespace(end_transaction=lambda *args, **more: ended.append((args, more)))
    answer = MarkerHandler(services(led), groups, 0.05).write(WriteTxnMarkersRequest(list(markers)))
    codes = [
        {(t.topic, p.partition): p.error_code for t in each.topics for p in t.partitions}
        for each in answer.markers
    ]
    return codes, ended


def marker(*keys, epoch=0, committed=True, coordinator_epoch=0):
    topics = [TxnTopicPartitions(topic, [number]) for topic, number in keys]
    return TxnMarker(1, epoch, committed, topics, coordinator_epoch)


def test_marker_is_appended_to_each_partition(led):
    log = led[KEYS[0]].log
    append_transactional(log)
    codes, ended = write(led, marker(*KEYS, ("t", 9)))
    assert codes == [{KEYS[0]: 0, KEYS[1]: 0, ("t", 9): E.NOT_LEADER_FOR_PARTITION}]
    assert log.first_unstable_offset is None
    # The group coordinator learns of the marker in its own topic, and of no other.
    assert ended == [((3, 1, 0), {"commit": True})]


def test_fenced_markers_have_error_codes(led):
    assert write(led, marker(KEYS[1], epoch=2, coordinator_epoch=5))[0] == [{KEYS[1]: 0}]
    codes, ended = write(
        led,
        marker(KEYS[1], epoch=1, coordinator_epoch=6),
        marker(KEYS[1], epoch=2, coordinator_epoch=4),
    )
    fenced = [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED]
    assert [each[KEYS[1]] for each in codes] == fenced
    assert ended == []


def test_unreplicated_marker_is_not_acknowledged(led):
    partition = led[KEYS[1]]
    partition.become_leader(decided(1, 1, (1, 2), (1, 2)))
    codes, ended = write(led, marker(KEYS[1]))
    assert codes == [{KEYS[1]: E.REQUEST_TIMED_OUT}]
    assert ended == []


def test_many_markers_let_other_tasks_run_and_wait_once_per_partition(led, monkeypatch):
    monkeypatch.setattr(pacing, "RUN_S", 0.0)
    turns = []

    def bystander():
        while True:
            turns.append(led[KEYS[0]].log.log_end_offset)
            gevent.sleep(0)

    other = gevent.spawn(bystander)
    watched = []
    partition = led[KEYS[0]]
    partition.become_leader(decided(1, 1, (1, 2), (1, 2)))
    watch = Waiters.watch_high_watermark

    def note(self, operation, offset=-1):
        watched.append(offset)
        watch(self, operation, offset)

    monkeypatch.setattr(Waiters, "watch_high_watermark", note)
    markers = [TxnMarker(each, 0, False, marker(KEYS[0]).topics, 0) for each in range(SHORT)]
    codes, _ = write(led, *markers)
    other.kill()
    assert codes == [{KEYS[0]: E.REQUEST_TIMED_OUT}] * SHORT
    assert watched == [SHORT - 1]
    assert {1, SHORT // 2, SHORT - 1} <= set(turns)  # it ran between two appends


def test_marker_of_an_ended_leadership_is_not_acknowledged_by_a_later_one(led, monkeypatch):
    partition = led[KEYS[0]]
    append = Leadership.end_transaction

    def end(self, producer, *given, **more):
        appended = append(self, producer, *given, **more)
        if producer == 1:
            partition.become_follower(decided(2, 1, (1, 2), (1, 2)))
            partition.become_leader(decided(1, 2, (1, 2), (1,)))
        return appended

    monkeypatch.setattr(Leadership, "end_transaction", end)
    markers = [TxnMarker(each, 0, False, marker(KEYS[0]).topics, 0) for each in (1, 2)]
    codes, _ = write(led, *markers)
    assert codes == [{KEYS[0]: E.NOT_LEADER_FOR_PARTITION}, {KEYS[0]: 0}]


def produce(led, data, *, transactional_id="id", verify=None):
    rows = [ProduceRequestPartition(0, memoryview(bytearray(data)))]
    request = ProduceRequest(transactional_id, -1, 1000, [ProduceRequestTopic("t", rows)])
    answer = ProduceHandler(services(led), verify)(request, handler_context(7))
    return answer.topics[0].partitions[0].error_code


def batch(sequence=0, **more):
    more = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True} | more
    return encode_message_set([(None, b"x", 1, ())], base_sequence=sequence, **more)


def test_coordinator_verifies_each_transaction_and_partition_once(led):
    asked = []
    for sequence in range(3):
        assert produce(led, batch(sequence), verify=lambda *args: asked.append(args[:4])) == 0
    assert asked == [("id", 1, 0, (("t", 0),))]
    assert produce(led, batch(3, is_transactional=False)) == E.INVALID_TXN_STATE


def test_batch_refused_by_the_coordinator_is_not_appended(led):
    def refuse(*args):
        raise ProtocolError("no", code=E.INVALID_TXN_STATE)

    assert produce(led, batch(), verify=refuse) == E.INVALID_TXN_STATE
    assert led[KEYS[0]].log_end_offset == 0


def test_marker_during_verification_refuses_the_batch(led):
    def late(*args):
        write(led, marker(KEYS[0]))

    assert produce(led, batch(), verify=late) == E.INVALID_TXN_STATE
    assert led[KEYS[0]].log_end_offset == 1


def test_transactional_batch_needs_a_transactional_id(led):
    code = produce(led, batch(), transactional_id=None)
    assert code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def handlers(led, code=E.NONE):
    asked = []

    def add(*args):
        asked.append(args)
        return code

    coordinator = SimpleNamespace(add_partitions=add)
    return TransactionHandlers(services(led), coordinator, None), asked


def added(made, *topics):
    request = AddPartitionsToTxnRequest("id", 1, 0, [TxnTopicPartitions(*each) for each in topics])
    answer = made.add_partitions(request, handler_context(1, PARK))
    return {(t.topic, p.partition): p.error_code for t in answer.topics for p in t.partitions}


def test_partitions_are_added_all_or_none(led):
    made, asked = handlers(led)
    assert added(made, ("t", [0, 1])) == {("t", 0): 0, ("t", 1): 0}
    assert asked == [("id", 1, 0, [("t", 0), ("t", 1)], PARK)]
    assert added(made, ("t", [0, 7]), ("__consumer_offsets", [0])) == {
        ("t", 0): E.OPERATION_NOT_ATTEMPTED,
        ("t", 7): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("__consumer_offsets", 0): E.TOPIC_AUTHORIZATION_FAILED,
    }
    assert len(asked) == 1


def test_coordinator_error_is_returned_for_each_partition(led):
    made, _ = handlers(led, E.CONCURRENT_TRANSACTIONS)
    assert set(added(made, ("t", [0, 1])).values()) == {E.CONCURRENT_TRANSACTIONS}


def test_add_offsets_adds_the_groups_offsets_partition(led):
    made, asked = handlers(led)
    made.add_offsets(AddOffsetsToTxnRequest("id", 1, 0, "a"), handler_context(1, PARK))
    assert asked == [("id", 1, 0, [("__consumer_offsets", 47)], PARK)]


@pytest.mark.parametrize("transactional_id", [None, "id"])
def test_producer_id_is_retriable_while_zookeeper_is_away(led, transactional_id):
    # ProducerIdManager of genuine brokers: 14, which no producer takes for final, and not 7.
    def away(*_):
        raise ConnectionLost("no answer")

    coordinator, ids = SimpleNamespace(init_producer_id=away), SimpleNamespace(next_id=away)
    made = TransactionHandlers(services(led), coordinator, ids)
    answer = made.init_producer_id(InitProducerIdRequest(transactional_id), handler_context(1))
    assert (answer.error_code, answer.producer_id) == (E.COORDINATOR_LOAD_IN_PROGRESS, -1)


@pytest.mark.parametrize("topic", ["", "..", "../../x", "a/b", "a\0b", "x" * 300])
def test_invalid_topic_gets_no_marker(topic, caplog):
    # Without a session of ZooKeeper: no request is sent.
    view = ClusterView(BrokerInfo(1, "a", 1))
    owner = SimpleNamespace(_services=SimpleNamespace(view=view))
    assert TransactionCoordination._leader_of(owner, topic, 0) is None
    assert "an invalid topic" in caplog.text


def broker_services(led, **parts):
    """The real services of a broker, with these parts alone."""
    missing = dict.fromkeys(inspect.signature(BrokerServices).parameters)
    replicas = SimpleNamespace(get=lambda *key: led.get(key))
    return BrokerServices(**missing | {"replicas": replicas} | parts)


def test_transaction_ends_while_the_deletion_of_its_topic_waits(led, monkeypatch):
    # For a broker that is away, perhaps for ever; the topic may also turn out not to be deleted.
    view = ClusterView(BrokerInfo(1, "a", 1))
    view.set_topics(TopicsView({"t": {0: (1,)}}, {"t": {}}, frozenset({"t"})))
    state = UpdateMetadataPartition("t", 0, 1, 1, 1, [1], 0, [1])
    view.update(UpdateMetadataRequest(0, 1, partition_states=[state]), ControllerFence(lambda: 1))
    stored = {0: (1,)}
    monkeypatch.setattr("zkbroker.broker.transactions.read_assignment", lambda *_: stored)
    owner = SimpleNamespace(_services=SimpleNamespace(view=view, session=None))
    assert TransactionCoordination._leader_of(owner, "t", 0) == 1
    made = broker_services(led, view=view, runtime=PlainRuntime())
    request = WriteTxnMarkersRequest([marker(KEYS[0])])
    (answer,) = MarkerHandler(made, None, 0.05).write(request).markers
    assert answer.topics[0].partitions[0].error_code == E.NONE
    assert led[KEYS[0]].log_end_offset == 1


def test_partition_that_is_not_replicated_keeps_no_other_from_its_marker(led):
    led[KEYS[0]].become_leader(decided(1, 1, (1, 2), (1, 2)))
    runtime = get_runtime("gevent")
    view = ClusterView(BrokerInfo(1, "a", 1))
    view.set_brokers({2: BrokerInfo(2, "b", 2)})

    def connection(broker, purpose, timeout_ms):
        def answer(request):
            gevent.sleep(0.01)  # on its way
            return made.handlers()[ApiKey.WRITE_TXN_MARKERS](request, handler_context(0))

        def send(request, version):
            return gevent.spawn(answer, request).get(timeout=timeout_ms / 1000)

        return SimpleNamespace(send=send)

    services = broker_services(
        led,
        broker_id=1,
        runtime=runtime,
        view=view,
        dialing=SimpleNamespace(connection=connection),
        session=SimpleNamespace(runtime=runtime),
        config=BrokerConfig(zookeeper_connect="none", replica_socket_timeout_ms=1000),
    )
    groups = SimpleNamespace(end_transaction=lambda *_, **__: None)
    made = TransactionCoordination(services, groups)
    (codes,) = made._send_markers(2, [TransactionMarkers(1, 0, True, 0, tuple(KEYS))])
    assert codes == {KEYS[0]: E.REQUEST_TIMED_OUT, KEYS[1]: E.NONE}


def sent_markers(answers, *producers):
    """Send a marker of each producer for t-0; a broker answers with these (producer, code)."""
    response = WriteTxnMarkersResponse(
        [
            TxnMarkerResult(producer, [TxnTopicErrors("t", [TxnPartitionError(0, code)])])
            for producer, code in answers
        ]
    )
    owner = SimpleNamespace(
        _services=SimpleNamespace(broker_id=1),
        _connections=SimpleNamespace(send=lambda *_: response),
    )
    markers = [TransactionMarkers(each, 0, True, 0, (("t", 0),)) for each in producers]
    return [each.get(("t", 0)) for each in TransactionCoordination._send_markers(owner, 2, markers)]


def test_markers_get_the_codes_of_their_producers_in_whatever_order():
    # Genuine brokers answer in the order of a hash map of 16 places: 17 comes before 2.
    answers = [(17, E.NOT_LEADER_FOR_PARTITION), (2, E.NONE)]
    assert sent_markers(answers, 2, 17, 31) == [E.NONE, E.NOT_LEADER_FOR_PARTITION, None]


def test_markers_of_one_producer_get_their_codes_in_order():
    answers = [(5, E.TRANSACTION_COORDINATOR_FENCED), (6, E.NONE), (5, E.NONE)]
    assert sent_markers(answers, 5, 6, 5) == [E.TRANSACTION_COORDINATOR_FENCED, E.NONE, E.NONE]
