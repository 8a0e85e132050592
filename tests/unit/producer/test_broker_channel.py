"""The channel to one broker: change of connections and message formats."""

from types import SimpleNamespace

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, make
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import NetworkError
from zkbroker.producer import KeyedMessage
from zkbroker.producer.broker_channel import BrokerChannel, Exchange
from zkbroker.records import iter_entries
from zkbroker.runtime import get_runtime


class PendingResponse:
    """A request whose connection is lost when the test calls `lose`."""

    def __init__(self):
        self._callbacks = []

    def add_done_callback(self, callback):
        self._callbacks.append(callback)

    def result(self, timeout_s):
        raise NetworkError("the connection was lost")

    def lose(self):
        for callback in self._callbacks:
            callback(self)


class RecordingConnection:
    address = "nowhere:1"

    def __init__(self, runtime):
        self.sent = runtime.queue(10)
        self.closed = runtime.event()

    def best_version(self, api_key):
        return 7

    def send(self, request, version):
        pending = PendingResponse()
        self.sent.put(pending)
        return pending

    def close(self):
        self.closed.set()


def exchange():
    batch = SimpleNamespace(
        topic="t", partition=0, records=[], build=lambda magic, codec, level, **options: b"built"
    )
    return Exchange(1, [batch])


@RUNTIMES
def test_new_connection_is_used_only_after_old_exchanges_were_reported(runtime):
    runtime = get_runtime(runtime)
    old, new = RecordingConnection(runtime), RecordingConnection(runtime)
    connections = iter([old, old, new])
    cluster = SimpleNamespace(connection=lambda broker_id: next(connections))
    reported = []
    channel = BrokerChannel(
        1, cluster, runtime, ProducerConfig(broker_list=("h:1",)), on_done=reported.append
    )
    first, second, third = exchange(), exchange(), exchange()
    for each in (first, second, third):
        channel.submit(each)
    pending = [old.sent.get(WAIT_S), old.sent.get(WAIT_S)]
    assert old.closed.wait(WAIT_S)
    pending[0].lose()
    runtime.sleep(0.01)
    # One is unanswered: stored or not, the third exchange must not overtake it.
    assert new.sent.qsize() == 0
    pending[1].lose()
    new.sent.get(WAIT_S).lose()
    assert reported == [first, second, third]
    assert isinstance(first.error, NetworkError)
    channel.close()
    assert channel.join(WAIT_S)


def test_message_format_follows_produce_version_of_broker():
    for version, magic in ((0, 0), (1, 0), (2, 1), (3, 2), (7, 2)):
        with FakeCluster(max_produce_version=version) as fake:
            fake.create("t", [0])
            with make(fake) as producer:
                producer.send(KeyedMessage("t", b"x", key=b"k"))
            data = fake.log("t", 0).sets[0]
            assert next(iter_entries(data)).magic == magic
