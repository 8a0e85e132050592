"""Short ways: the same bytes, the same logs and the same counts as by the general way."""

import random

import gevent
import pytest

from tests.support import soak
from tests.support.broker_requests import fetch_partition
from tests.support.plain_broker import PlainBroker
from tests.support.random_requests import random_request
from zkbroker.broker.guard import Permissions
from zkbroker.broker.quotas.table import QuotaKind
from zkbroker.protocol import ApiKey, RequestHeader, encode_request
from zkbroker.protocol.messages import FetchRequest, ProduceRequest
from zkbroker.protocol.messages.fetch import FetchRequestTopic
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import Codec, MessageSetBuilder
from zkbroker.security import Operation
from zkbroker.security.audit import AuditLog

SOME, MANY = 300, 100_000
NOW = 1_700_000_000_000


@pytest.fixture
def pair(tmp_path):
    made = []

    def make(**settings):
        for short in (True, False):
            directory = tmp_path / str(len(made))
            directory.mkdir()
            made.append(PlainBroker(directory, short=short, **settings))
        return made[-2], made[-1]

    yield make
    for broker in made:
        broker.close()


def framed(request, version, client_id="c"):
    header = RequestHeader(request.api_key, version, 77, client_id)
    return b"".join(encode_request(header, request))[4:]


def batch(magic=2, count=3, codec=Codec.NONE, **more):
    builder = MessageSetBuilder(magic, codec, **more)
    for number in range(count):
        builder.append(b"k", b"v" * 50, timestamp_ms=NOW + number if magic else -1)
    return builder.build()


def produce(*sets, acks=1, version=7, **more):
    rows = [ProduceRequestPartition(number, data) for number, data in enumerate(sets)]
    return framed(ProduceRequest(None, acks, 1, [ProduceRequestTopic("t", rows)]), version, **more)


def likely_set(chance, sequences):
    magic, count = chance.choice((0, 1, 2, 2)), chance.choice((1, 2, 20))
    if magic == 2 and chance.random() < 0.4:
        producer = chance.randrange(3)
        known = sequences.get(producer, 0)
        sequence = known if chance.random() < 0.8 else chance.choice((0, known + 1))
        if sequence == known:
            sequences[producer] = known + count
        return batch(2, count, producer_id=producer, producer_epoch=0, base_sequence=sequence)
    codec = chance.choice((Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY))
    return batch(magic, count, codec)


def likely_request(chance, sequences, timeout_ms):
    topic = chance.choice(("t", "t", "é", "nowhere", "__consumer_offsets"))
    numbers = chance.choice(((0,), (0,), (1,), (0, 1), (1, 5, 0), (0, 0)))
    client = chance.choice(("c", None, "é"))
    if chance.random() < 0.6:
        rows = [ProduceRequestPartition(n, likely_set(chance, sequences)) for n in numbers]
        request = ProduceRequest(
            None,
            chance.choice((1, 1, -1, 0)),
            timeout_ms,
            [ProduceRequestTopic(topic, rows)],
        )
        return framed(request, chance.randrange(8), client)
    asked = [
        fetch_partition(
            n,
            epoch=chance.choice((-1, -1, 3, 2, 4)),
            offset=chance.choice((0, 0, 1, 7, 30, 10**6)),
            log_start_offset=0,
            max_bytes=chance.choice((10**6, 10**6, 300, 0, -1)),
        )
        for n in numbers
    ]
    request = FetchRequest(
        replica_id=chance.choice((-1, -1, -1, -2, 2, 9)),
        max_wait_ms=chance.choice((0, 0, 1)),
        min_bytes=chance.choice((0, 1)),
        max_bytes=chance.choice((2**31 - 1, 500, 0)),
        isolation_level=chance.choice((0, 0, 1, 1, 3)),
        session_epoch=chance.choice((-1, -1, -1, 3)),
        topics=[FetchRequestTopic(topic, asked)],
    )
    return framed(request, chance.randrange(12), client)


def compare(pair, seed, count, **settings):
    """Send the same requests both ways: most are likely ones, some are random and some damaged."""
    short, general = pair(**settings)
    chance = random.Random(seed)
    sequences = {}
    for number in range(count):
        # A random request may wait for replicas without end, or for the disk not long enough.
        if "replicas" in settings or "flush_messages" in settings or chance.random() < 0.8:
            frame = likely_request(chance, sequences, 1 if "replicas" in settings else 60_000)
        else:
            frame = random_request(chance, ApiKey.PRODUCE, ApiKey.FETCH)[4:]
        if chance.random() < 0.1:
            damaged = bytearray(frame)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            frame = bytes(damaged)
        answers = []
        for broker in (short, general):
            random.seed(number)  # of the ids of fetch sessions
            answers.append(broker.send(frame))
        assert answers[0] == answers[1], (number, frame)
        if number % 50 == 0 or number == count - 1:
            assert short.state() == general.state(), number
        for broker in (short, general):
            broker.clock.now += 3
    with gevent.Timeout(60):  # A flush, too, holds files until it ends.
        while short.open_slices() or general.open_slices():
            gevent.sleep(0.001)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"segment_bytes": 4096, "index_interval_bytes": 300},
        {"max_message_bytes": 400},
        {"timestamp_type": "LogAppendTime"},
        {"message_format_version": "0.10.0"},
        {"compression_type": "gzip"},
        {"flush_messages": 4},
        {"roll_ms": 100},
        {"cleanup_policy": "compact"},
        {"replicas": (1, 2)},
        {"replicas": (1, 2), "min_insync_replicas": 3},
    ],
    ids=lambda settings: "-".join(settings) or "default",
)
def test_both_ways_give_the_same_result(pair, settings):
    compare(pair, 1, SOME // 4 if settings else SOME, **settings)


class PrefixDenied:
    """Denies resources whose name begins with a prefix, and some operations; allows the rest."""

    def __init__(self, denied, never=()):
        self.denied = denied
        self.never = never

    def allows(self, principal, operation, resource, host):
        return operation not in self.never and not resource.name.startswith(self.denied)

    def allows_some(self, principal, operation, kind, host):
        return operation not in self.never


def permissions(denied, *never):
    return Permissions(PrefixDenied(denied, never), AuditLog(lambda: 0))


def general_ones(broker, monkeypatch):
    """Return a list of the requests that take the general way, which it collects from now on."""
    found = []
    handle = broker.dispatcher._handle_any

    def note(session, frame, started):
        found.append(bytes(frame))
        return handle(session, frame, started)

    monkeypatch.setattr(broker.dispatcher, "_handle_any", note)
    return found


def fetch(version=10, topic="t", **more):
    asked = fetch_partition()
    return framed(FetchRequest(topics=[FetchRequestTopic(topic, [asked])], **more), version)


def test_most_requests_take_the_short_way(pair, monkeypatch):
    short, _ = pair()
    general = general_ones(short, monkeypatch)
    for version in range(8):
        magic = 2 if version >= 3 else version % 2
        assert short.send(produce(batch(magic), version=version))
        assert short.send(produce(batch(magic, codec=Codec.GZIP), version=version))
    for version in range(12):
        assert short.send(fetch(version))
    assert short.send(fetch(6, replica_id=2))
    assert general == []
    followers = fetch(7, replica_id=2, session_epoch=0)
    assert short.send(followers)
    assert general == [followers]


@pytest.mark.parametrize(
    ("denied", "never"),
    [
        ("t", ()),
        ("nothing", ()),
        ("kafka-cluster", ()),
        ("nothing", (Operation.IDEMPOTENT_WRITE,)),
        ("nothing", (Operation.IDEMPOTENT_WRITE, Operation.WRITE)),
    ],
)
def test_both_ways_authorize_and_audit_the_same(pair, denied, never, caplog):
    caplog.set_level("DEBUG", "zkbroker.audit")
    noted = ([], [])

    def made(**given):
        brokers = pair(**given)
        for broker, lines in zip(brokers, noted, strict=True):
            broker.send = noting(broker.send, lines)
        return brokers

    def noting(send, lines):
        def sent(frame):
            caplog.clear()
            answer = send(frame)
            lines.extend(each for each in caplog.messages if each.startswith("allowed"))
            return answer

        return sent

    compare(made, 2, SOME // 4, permissions=permissions(denied, *never))
    assert noted[0] == noted[1]


def test_allowed_request_takes_the_short_way_and_denial_is_audited_once(pair, monkeypatch, caplog):
    short, _ = pair(permissions=permissions("u"))
    general = general_ones(short, monkeypatch)
    assert short.send(produce(batch()))
    assert short.send(fetch())
    assert general == []
    assert short.send(fetch(topic="u"))
    assert len(general) == 1
    assert [each for each in caplog.messages if each.startswith("denied")] == [
        "denied principal=User:ANONYMOUS operation=Read resource=Topic:u host=10.0.0.1 client_id=c"
    ]
    assert short.send(fetch(6, replica_id=2))
    idempotent = batch(producer_id=1, producer_epoch=0, base_sequence=0)
    assert short.send(produce(idempotent))
    assert len(general) == 1


@pytest.mark.parametrize("never", [(), (Operation.IDEMPOTENT_WRITE,), (Operation.WRITE,)])
@pytest.mark.parametrize("transactional_id", ["mine", "yours", None])
def test_both_ways_authorize_the_transactional_id(pair, transactional_id, never, caplog):
    caplog.set_level("DEBUG", "zkbroker.audit")
    brokers = pair(permissions=permissions("yours", *never))
    data = batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    rows = [ProduceRequestPartition(0, data)]
    request = ProduceRequest(transactional_id, 1, 1, [ProduceRequestTopic("t", rows)])
    answers, noted = [], []
    for broker in brokers:
        caplog.clear()
        answers.append(broker.send(framed(request, 7)))
        # Both share the permissions, and with them the denials that were logged already.
        noted.append([each for each in caplog.messages if each.startswith("allowed")])
    assert answers[0] == answers[1]
    assert noted[0] == noted[1]
    assert brokers[0].state() == brokers[1].state()
    appended = next(iter(brokers[0].partitions.values())).log.log_end_offset
    assert bool(appended) == (transactional_id == "mine" and Operation.WRITE not in never)


QUOTAS = {QuotaKind.PRODUCE: "20000", QuotaKind.FETCH: "60000"}


@pytest.mark.parametrize("kinds", [(QuotaKind.PRODUCE,), (QuotaKind.FETCH,), tuple(QUOTAS)])
def test_both_ways_throttle_the_same(pair, kinds):
    compare(pair, 3, SOME // 2, quotas={each: QUOTAS[each] for each in kinds})


def test_fetch_above_quota_takes_the_general_way(pair, monkeypatch):
    short, _ = pair(quotas={QuotaKind.PRODUCE: "100", QuotaKind.FETCH: "100"})
    general = general_ones(short, monkeypatch)
    assert short.send(produce(batch(count=20)))
    assert short.muted_s
    assert short.send(fetch())
    assert general == []
    assert short.send(fetch())
    assert len(general) == 1
    assert len(short.muted_s) == 2


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10))
def test_both_ways_give_the_same_result_for_long(pair, seed):
    compare(pair, 100 + seed + soak.SEED, soak.part_of(MANY // 10), segment_bytes=1 << 20)
