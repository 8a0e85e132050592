"""Quotas throttle requests in the dispatcher; with a clock that the test moves."""

import pytest

from tests.support.handler_services import HandlerSession
from zkbroker.broker.clients import ClientCounts
from zkbroker.broker.quotas.client_quotas import ClientQuotas
from zkbroker.broker.quotas.table import QuotaKind, QuotaTable
from zkbroker.broker.quotas.throttling import Throttling
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


class ThrottledClient:
    """A client with quotas, one connection and a clock."""

    def __init__(self, settings):
        self.now_ms = 0
        self.quotas = ClientQuotas(lambda: self.now_ms)
        self.quotas.take(QuotaTable(UserConfigs({ConfigEntity(user="u"): settings})))
        self.throttling = Throttling(self.quotas)
        self.limits = self.throttling.limits(None, "u", "c")
        self.session = HandlerSession()
        self.counts = ClientCounts()

    def meter(self, request, size=0):
        return self.throttling.meter(self.limits, self.session.mute, self.counts, request, size)

    def handle(self, request, response, size=0, took_ms=0.0):
        """Handle a request that is not refused; return its throttle time and the muted seconds."""
        meter = self.meter(request, size)
        assert meter.refuse(request, 7) is None
        meter.handled(response, took_ms)
        return response.throttle_time_ms, self.muted_s

    @property
    def muted_s(self):
        return self.session.mute.seconds


@pytest.fixture
def client():
    return ThrottledClient(ALL)


def test_produce_above_quota_returns_throttle_time_and_mutes(client):
    assert client.handle(ProduceRequest(), ProduceResponse(), 3000) == (2000, 2.0)
    assert (client.counts.throttled, client.counts.throttled_ms) == (1, 2000)


def test_produce_within_quota_is_not_throttled(client):
    assert client.handle(ProduceRequest(), ProduceResponse(), 1000) == (0, 0.0)
    assert client.counts.throttled == 0


def test_produce_with_acks_0_mutes_and_is_not_timed(client):
    client.meter(ProduceRequest(acks=0), 3000).handled(None, 5000.0)
    assert client.muted_s == 2.0
    assert client.quotas.throttle_ms(client.limits, QuotaKind.REQUEST) == 0


def test_fetch_above_quota_makes_next_fetch_empty(client):
    request = FetchRequest(max_bytes=5000, min_bytes=4000)
    meter = client.meter(request)
    assert meter.refuse(request, 10) is None
    assert (request.max_bytes, request.min_bytes) == (1000, 1000)
    response = FetchResponse()
    meter.handled(response, 0.0)
    meter.answered([b"x" * 100, memoryview(bytes(2900))])
    assert (response.throttle_time_ms, client.muted_s) == (0, 0.0)
    refused = client.meter(request).refuse(request, 10)
    assert refused == FetchResponse(throttle_time_ms=2000)
    assert client.muted_s == 2.0


def test_throttled_fetch_does_not_count_towards_quota(client):
    request = FetchRequest()
    client.meter(request).answered([bytes(3000)])
    for _ in range(5):
        meter = client.meter(request)
        refused = meter.refuse(request, 10)
        meter.handled(refused, 500.0)
        meter.answered([bytes(30)])
        assert refused.throttle_time_ms == 2000
    client.now_ms = 2000
    assert client.meter(request).refuse(request, 10) is None


def test_fetch_before_version_3_is_not_limited(client):
    """Before version 3 a batch above the limit would stop the consumer."""
    request = FetchRequest(min_bytes=4000)
    before = request.max_bytes
    assert client.meter(request).refuse(request, 2) is None
    assert (request.max_bytes, request.min_bytes) == (before, 4000)


def test_request_time_quota_throttles_any_request_and_the_next_fetch(client):
    handled = client.handle(HeartbeatRequest(), HeartbeatResponse(), took_ms=150.0)
    assert handled == (500, 0.5)
    assert client.meter(FetchRequest()).refuse(FetchRequest(), 10).throttle_time_ms == 500


@pytest.mark.parametrize(
    "request_",
    [
        LeaderAndIsrRequest(),
        WriteTxnMarkersRequest(),
        FetchRequest(replica_id=2),
        OffsetForLeaderEpochRequest(replica_id=2),
    ],
)
def test_inter_broker_requests_are_exempt_from_quotas(client, request_):
    meter = client.meter(request_)
    assert meter.exempt
    assert meter.refuse(request_, 1) is None
    meter.answered([bytes(3000)])
    assert client.quotas.throttle_ms(client.limits, QuotaKind.FETCH) == 0


def test_client_without_quotas_is_not_metered(client):
    client.limits = client.throttling.limits(None, "other", None)
    assert client.meter(ProduceRequest(), 10**9) is None


def test_limits_are_looked_up_again_when_quotas_or_user_change(client):
    throttling, limits = client.throttling, client.limits
    assert throttling.limits(limits, "u", "c") is limits
    assert throttling.limits(limits, "v", "c").found == {}
    client.quotas.take(QuotaTable())
    assert throttling.limits(limits, "u", "c").found == {}


def test_request_during_which_its_quota_was_removed_does_not_mute(client):
    meter = client.meter(ProduceRequest(), 30_000)
    client.quotas.take(QuotaTable())
    response = ProduceResponse()
    meter.handled(response, 5000.0)
    assert (response.throttle_time_ms, client.muted_s) == (0, 0.0)
    assert client.quotas.rates == 0


def test_request_during_which_its_quota_was_raised_counts_against_the_new_one(client):
    meter = client.meter(ProduceRequest(), 30_000)
    raised = {ConfigEntity(user="u"): {QuotaKind.PRODUCE: "10000"}}
    client.quotas.take(QuotaTable(UserConfigs(raised)))
    response = ProduceResponse()
    meter.handled(response, 0.0)
    assert (response.throttle_time_ms, client.muted_s) == (2000, 2.0)
