"""Requests in flight: hanging leaders, and batches that share a request."""

import pytest

from tests.support.fake_broker import HANG, FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous
from zkbroker.producer import KeyedMessage, dispatch
from zkbroker.protocol import ApiKey


@RUNTIMES
def test_hanging_leader_is_left_after_leader_change(runtime, monkeypatch):
    monkeypatch.setattr(dispatch, "_UNANSWERED_S", 0.1)
    monkeypatch.setattr(dispatch, "_MOVED_GRACE_S", 0.1)
    with FakeCluster(2) as fake:
        fake.create("t", [0])
        hanging = []

        def hang_and_lose_the_lead(request):
            hanging.append(request)
            fake.create("t", [1])
            return HANG

        fake.faults[ApiKey.PRODUCE, 0] = hang_and_lose_the_lead
        options = {"enable_idempotence": "true", "request_timeout_ms": 600_000}
        with asynchronous(fake, runtime, **options) as producer:
            assert producer.send(KeyedMessage("t", b"x")).result(WAIT_S).offset == 0
        assert len(hanging) == 1
        assert fake.values("t", 0) == [b"x"]


@RUNTIMES
@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_partitions_of_one_leader_share_requests(runtime, idempotence):
    with FakeCluster(1) as fake:
        fake.create("t", [0] * 8)
        options = {"enable_idempotence": idempotence, "queue_time": 200}
        with asynchronous(fake, runtime, **options) as producer:
            futures = [producer.send(KeyedMessage("t", b"x", partition=p)) for p in range(8)]
            assert {future.result(WAIT_S).partition for future in futures} == set(range(8))
        asked = [r for key, _, r in fake.brokers[0].requests if key is ApiKey.PRODUCE]
        assert any(len(request.topics[0].partitions) > 1 for request in asked)
