"""Random mixtures of refusals, lost responses, closed connections and moving leaders."""

import random
import threading

import pytest

from tests.support import soak
from tests.support.fake_broker import CLOSE, LOSE_ANSWER, FakeCluster
from tests.support.producers import RUNTIMES, asynchronous
from zkbroker.errors import ErrorCode
from zkbroker.producer import KeyedMessage
from zkbroker.protocol import ApiKey

PARTITIONS = 3
REFUSALS = (
    ErrorCode.NOT_LEADER_FOR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CORRUPT_MESSAGE,
)


def run(seed: int, runtime: str, *, idempotence: bool, sends: int) -> None:
    chooser = random.Random(seed)
    lock = threading.Lock()

    def fault(request: object) -> object:
        with lock:
            draw = chooser.random()
            if draw < 0.1:
                return LOSE_ANSWER
            if draw < 0.2:
                return CLOSE
            if draw < 0.3:
                return chooser.choice(REFUSALS)
            if draw < 0.4:
                fake.leaders["t"][chooser.randrange(PARTITIONS)] = chooser.choice((0, 1, None))
            elif None in fake.leaders["t"]:
                fake.leaders["t"] = [each or 0 for each in fake.leaders["t"]]
            return None

    with FakeCluster(2) as fake:
        fake.create("t", [0, 1, 0])
        fake.max_message_bytes = 3000
        for broker_id in (0, 1):
            fake.faults[ApiKey.PRODUCE, broker_id] = fault
            fake.faults[ApiKey.METADATA, broker_id] = lambda request: _mend(fake, chooser, lock)
        with asynchronous(
            fake,
            runtime,
            enable_idempotence=str(idempotence).lower(),
            retries=1_000_000,
            retry_backoff_ms=1,
            queue_time=chooser.choice((0, 1, 5)),
            queue_size=chooser.choice((20, 200, 2000)),
            batch_size=chooser.choice((1, 10, 100)),
            batch_max_bytes=chooser.choice((500, 2000, 6000)),
        ) as producer:
            futures = []
            for i in range(sends):
                message = KeyedMessage("t", b"%06d" % i, partition=chooser.randrange(PARTITIONS))
                futures.append((message.partition, message.message, producer.send(message)))
            expected: dict[int, list[bytes]] = {p: [] for p in range(PARTITIONS)}
            for partition, value, future in futures:
                place = future.result(60)
                assert place.partition == partition
                if place.offset >= 0:
                    assert fake.values("t", partition)[place.offset] == value
                expected[partition].append(value)
            assert producer.metrics()["unresolved_messages"] == 0
            assert producer.metrics()["unresolved_bytes"] == 0
        for partition in range(PARTITIONS):
            stored = fake.values("t", partition)
            if not idempotence:
                # After a lost response a message may be stored twice; the last copies are in order.
                stored = list(dict.fromkeys(reversed(stored)))[::-1]
            assert stored == expected[partition]


def _mend(fake: FakeCluster, chooser: random.Random, lock: threading.Lock) -> None:
    with lock:
        if chooser.random() < 0.5:
            fake.leaders["t"] = [each or 0 for each in fake.leaders["t"]]


@RUNTIMES
@pytest.mark.parametrize("idempotence", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("seed", range(4))
def test_messages_are_stored_in_order_under_faults(seed, idempotence, runtime):
    run(seed, runtime, idempotence=idempotence, sends=150)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@RUNTIMES
@pytest.mark.parametrize("idempotence", [True, False], ids=["idempotent", "plain"])
def test_messages_are_stored_in_order_under_many_fault_schedules(idempotence, runtime):
    for seed in soak.seeds(100, 200):
        run(seed, runtime, idempotence=idempotence, sends=500)
