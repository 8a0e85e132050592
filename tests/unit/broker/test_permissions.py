"""The table of permissions: complete, and with the error codes of genuine brokers."""

import pytest

from tests.support.permissions import SAMPLES
from zkbroker.broker.permissions import NEEDS, REFUSED, Scope
from zkbroker.broker.refusals import ITEMS
from zkbroker.protocol import BROKER_VERSIONS, ApiKey
from zkbroker.security import Operation, ResourceType


def test_every_served_api_is_in_the_table():
    assert set(NEEDS) == set(BROKER_VERSIONS)


def test_only_versions_and_login_need_no_permission():
    assert {api for api, needs in NEEDS.items() if not needs} == {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }


@pytest.mark.parametrize("api", list(NEEDS))
def test_partial_refusal_needs_error_fields_in_the_response(api):
    if any(need.scope is Scope.EACH for need in NEEDS[api]):
        assert api in ITEMS


def test_inter_broker_apis_need_cluster_action():
    for api in BROKER_VERSIONS:
        needs = [need for need in NEEDS[api] if need.operation is Operation.CLUSTER_ACTION]
        assert bool(needs) == (
            api in (4, 5, 6, 7, ApiKey.WRITE_TXN_MARKERS, ApiKey.VERIFY_TRANSACTION, ApiKey.FETCH)
        )


@pytest.mark.parametrize("api", list(SAMPLES))
def test_resources_are_found_in_requests(api):
    for request in SAMPLES[api]:
        for need in NEEDS[api]:
            if need.when is not None and not need.when(request):
                continue
            if need.scope is Scope.WHOLE:
                assert list(need.on(request)) or request.transactional_id is None
            elif need.scope is Scope.EACH:
                for item in getattr(request, ITEMS[api].asked) or ():
                    assert list(need.on(item))


def test_each_resource_type_has_its_error():
    assert {kind.name: int(REFUSED[kind]) for kind in ResourceType} == {
        "TOPIC": 29,
        "GROUP": 30,
        "CLUSTER": 31,
        "TRANSACTIONAL_ID": 53,
        "DELEGATION_TOKEN": 65,
    }
