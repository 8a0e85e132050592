"""Topics that a message handler names: a stream waits for them as it waits for its own."""

from tests.support.process import wait_until
from tests.unit.mirror.test_tracker import partition
from tests.unit.mirror.test_worker import KEY, StreamSetup, batch
from zkbroker.client import BrokerUnavailable
from zkbroker.errors import ErrorCode, protocol_error
from zkbroker.producer import KeyedMessage


def copies(message):
    return [
        KeyedMessage(message.topic, message.value, key=message.key),
        KeyedMessage("copies", message.value),
    ]


def test_chunk_waits_until_the_topic_that_its_handler_names_is_ready():
    setup, source = StreamSetup(handle=copies), partition()
    setup.target.lookup_errors = [
        protocol_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not there yet"),
        BrokerUnavailable("away"),
        protocol_error(ErrorCode.LEADER_NOT_AVAILABLE, "elected just now"),
    ]
    worker = setup.go(batch(source, 0, 3), batch(source, 3, 2))
    assert setup.failures == []
    sent = [(each.topic, len(each)) for each in setup.target.sent]
    assert sent == [("to-t", 3), ("copies", 3), ("to-t", 2), ("copies", 2)]
    assert setup.source.committed == {KEY: 5}
    assert worker.tracker.open_bytes == 0


def test_topic_of_a_handler_that_is_never_ready_ends_stream():
    setup = StreamSetup(handle=copies)
    refused = protocol_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed")
    setup.target.lookup_errors = [refused] * 2
    setup.go(batch(partition()))
    assert setup.failures == [refused]
    assert setup.target.sent == []
    assert setup.source.committed == {}


def test_topic_of_a_lost_chunk_holds_up_no_other_chunk():
    def handle(message):
        return copies(message)[: 2 - message.partition]

    setup, lost, other = StreamSetup(handle=handle), partition(), partition(1)
    setup.target.lookup_errors = [BrokerUnavailable("away")] * 100_000
    setup.source.chunks = [batch(lost)]
    worker = setup.make()
    assert wait_until(lambda: worker.counts.failures > 0, interval_s=0.005)
    lost.revoke()
    setup.lost([KEY])
    setup.source.chunks.append(batch(other))
    assert wait_until(lambda: setup.failures or setup.target.sent, interval_s=0.005)
    worker.stop()
    assert worker.join(60)
    assert setup.source.committed == {("t", 1): 3}
