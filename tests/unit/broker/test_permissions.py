from types import SimpleNamespace

import pytest

from zkbroker.broker.permissions import NEEDS, check_permissions
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol import BROKER_VERSIONS, MESSAGES
from zkbroker.protocol.messages import (
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages.produce import ProduceRequestTopic
from zkbroker.security import ANONYMOUS, Operation, ResourceType


class Allow:
    """Allows what it was told to."""

    def __init__(self, *allowed):
        self.allowed = set(allowed)
        self.asked = []

    def allows(self, principal, operation, resource, host):
        assert (principal, host) == (ANONYMOUS, "10.0.0.1")
        self.asked.append((operation, *resource))
        return (operation, *resource) in self.allowed


def check(request, *allowed):
    authorizer = Allow(*allowed)
    context = SimpleNamespace(api_key=request.api_key, principal=ANONYMOUS, peer="10.0.0.1")
    check_permissions(authorizer, request, context)
    return authorizer.asked


def test_every_served_api_stands_in_the_table():
    assert set(NEEDS) == set(BROKER_VERSIONS)


@pytest.mark.parametrize("key", sorted(NEEDS))
def test_the_needs_of_an_api_can_be_read_off_its_request(key):
    for need in NEEDS[key]:
        list(need.resources(MESSAGES[key][0]()))


def test_what_is_not_allowed_has_its_resources_code():
    write_a = (Operation.WRITE, ResourceType.TOPIC, "a")
    produce = ProduceRequest(topics=[ProduceRequestTopic("a"), ProduceRequestTopic("b")])
    for request, allowed, code in [
        (produce, [write_a], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (DescribeGroupsRequest(["g"]), [], ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (DeleteTopicsRequest(["t"]), [], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (
            FindCoordinatorRequest("x", 1),
            [(Operation.DESCRIBE, ResourceType.GROUP, "x")],
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ]:
        with pytest.raises(ProtocolError) as caught:
            check(request, *allowed)
        assert caught.value.code is code


def test_what_is_allowed_passes():
    describe = (Operation.DESCRIBE, ResourceType.TOPIC, "t")
    assert check(MetadataRequest(["t"]), describe) == [describe]
