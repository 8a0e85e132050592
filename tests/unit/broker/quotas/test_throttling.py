"""What quotas do to requests: in the dispatcher, with a clock that the test moves."""

import pytest

from zkbroker.broker.clients import ClientCounts
from zkbroker.broker.quotas import ClientQuotas, QuotaKind, QuotaTable, Throttling
from zkbroker.network.server.muting import Mute
from zkbroker.protocol.messages import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    ProduceResponse,
)
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from zkbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from zkbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from zkbroker.registry.user_configs import ConfigEntity, UserConfigs

ALL = {QuotaKind.PRODUCE: "1000", QuotaKind.FETCH: "1000", QuotaKind.REQUEST: "10"}


class _Session:
    def __init__(self):
        self.mute = Mute(lambda: None)


class _Played:
    """A client with quotas, one connection and a clock."""

    def __init__(self, settings):
        self.now_ms = 0
        self.quotas = ClientQuotas(lambda: self.now_ms)
        self.quotas.take(QuotaTable(UserConfigs({ConfigEntity(user="u"): settings})))
        self.throttling = Throttling(self.quotas)
        self.limits = self.throttling.limits(None, "u", "c")
        self.session = _Session()
        self.counts = ClientCounts()

    def meter(self, request, size=0):
        return self.throttling.meter(self.limits, self.session, self.counts, request, size)

    @property
    def muted_s(self):
        return self.session.mute.seconds


@pytest.fixture
def played():
    return _Played(ALL)


def test_produce_above_quota_returns_throttle_time_and_mutes(played):
    meter, response = played.meter(ProduceRequest(), 3000), ProduceResponse()
    assert meter.refuse(ProduceRequest(), 7) is None
    meter.handled(response, 0.0)
    assert (response.throttle_time_ms, played.muted_s) == (2000, 2.0)
    assert (played.counts.throttled, played.counts.throttled_ms) == (1, 2000)


def test_produce_within_quota_is_not_throttled(played):
    meter, response = played.meter(ProduceRequest(), 1000), ProduceResponse()
    meter.handled(response, 0.0)
    assert (response.throttle_time_ms, played.muted_s, played.counts.throttled) == (0, 0.0, 0)


def test_produce_with_acks_0_mutes_and_is_not_timed(played):
    played.meter(ProduceRequest(acks=0), 3000).handled(None, 5000.0)
    assert played.muted_s == 2.0
    assert played.quotas.throttle_ms(played.limits, QuotaKind.REQUEST) == 0


def test_fetch_above_quota_makes_next_fetch_empty(played):
    request = FetchRequest(max_bytes=5000, min_bytes=4000)
    meter = played.meter(request)
    assert meter.refuse(request, 10) is None
    assert (request.max_bytes, request.min_bytes) == (1000, 1000)
    response = FetchResponse()
    meter.handled(response, 0.0)
    meter.answered([b"x" * 100, memoryview(bytes(2900))])
    assert (response.throttle_time_ms, played.muted_s) == (0, 0.0)
    refused = played.meter(request).refuse(request, 10)
    assert refused == FetchResponse(throttle_time_ms=2000)
    assert played.muted_s == 2.0


def test_throttled_fetch_does_not_count_towards_quota(played):
    request = FetchRequest()
    played.meter(request).answered([bytes(3000)])
    for _ in range(5):
        meter = played.meter(request)
        refused = meter.refuse(request, 10)
        meter.handled(refused, 500.0)
        meter.answered([bytes(30)])
        assert refused.throttle_time_ms == 2000
    played.now_ms = 2000
    assert played.meter(request).refuse(request, 10) is None


def test_fetch_before_version_3_is_not_limited(played):
    """Before version 3 a batch above the limit would stop the consumer."""
    request = FetchRequest(min_bytes=4000)
    before = request.max_bytes
    assert played.meter(request).refuse(request, 2) is None
    assert (request.max_bytes, request.min_bytes) == (before, 4000)


def test_request_time_quota_throttles_any_request_and_the_next_fetch(played):
    response = HeartbeatResponse()
    meter = played.meter(HeartbeatRequest())
    assert meter.refuse(HeartbeatRequest(), 1) is None
    meter.handled(response, 150.0)
    assert (response.throttle_time_ms, played.muted_s) == (500, 0.5)
    assert played.meter(FetchRequest()).refuse(FetchRequest(), 10).throttle_time_ms == 500


@pytest.mark.parametrize(
    "request_",
    [
        LeaderAndIsrRequest(),
        WriteTxnMarkersRequest(),
        FetchRequest(replica_id=2),
        OffsetForLeaderEpochRequest(replica_id=2),
    ],
)
def test_inter_broker_requests_are_exempt_from_quotas(played, request_):
    meter = played.meter(request_)
    assert meter.exempt
    assert meter.refuse(request_, 1) is None
    meter.answered([bytes(3000)])
    assert played.quotas.throttle_ms(played.limits, QuotaKind.FETCH) == 0


def test_client_without_quotas_is_not_metered(played):
    played.limits = played.throttling.limits(None, "other", None)
    assert played.meter(ProduceRequest(), 10**9) is None


def test_limits_are_looked_up_again_when_quotas_or_user_change(played):
    throttling, limits = played.throttling, played.limits
    assert throttling.limits(limits, "u", "c") is limits
    assert throttling.limits(limits, "v", "c").found == {}
    played.quotas.take(QuotaTable())
    assert throttling.limits(limits, "u", "c").found == {}
