"""The controller's requests reach the replicas and the view."""

from types import SimpleNamespace

import pytest

from tests.unit.broker.test_view import view
from zkbroker.broker.handlers.replication import ReplicationHandlers
from zkbroker.errors import ErrorCode
from zkbroker.protocol.messages import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.replica.fencing import ControllerFence


class RecordingReplicas:
    """Records the requests of the controller; leads t-0 and t-1."""

    def __init__(self):
        self.asked = []
        self.versions = []
        self.roles = self

    def leader_and_isr(self, request, connection):
        self.asked.append((request, connection))

    stop_replica = leader_and_isr

    def get(self, topic, number):
        if number > 1:
            return None
        noted = self.versions.append
        leading = SimpleNamespace(
            record_stored_version=lambda epoch, version: noted((number, epoch, version))
        )
        return SimpleNamespace(leading=leading)


@pytest.fixture
def replicas():
    return RecordingReplicas()


@pytest.fixture
def handlers(replicas):
    services = SimpleNamespace(view=view(), replicas=replicas, broker_id=1)
    return ReplicationHandlers(services, ControllerFence(lambda: 1), None, lambda epoch: None)


def over(connection):
    return SimpleNamespace(session=SimpleNamespace(number=connection))


def test_requests_are_passed_on_with_their_connection(handlers, replicas):
    for request, handle in (
        (LeaderAndIsrRequest(0, 1), handlers.leader_and_isr),
        (StopReplicaRequest(0, 1), handlers.stop_replica),
    ):
        handle(request, over(7))
        assert replicas.asked.pop() == (request, 7)


def metadata(*states, epoch=1):
    return UpdateMetadataRequest(
        0,
        epoch,
        partition_states=[
            UpdateMetadataPartition("t", number, epoch, leader, 3, [1, 2], version, [1, 2])
            for number, leader, version in states
        ],
    )


def test_metadata_over_an_older_connection_is_refused(handlers, replicas):
    request = metadata((0, 1, 5))
    codes = [handlers.update_metadata(request, over(each)).error_code for each in (7, 9, 7, 9)]
    assert codes == [0, 0, ErrorCode.STALE_CONTROLLER_EPOCH, 0]
    assert len(replicas.versions) == 3, "a refused request is not handled"


def test_leader_records_the_stored_version(handlers, replicas):
    handlers.update_metadata(metadata((0, 1, 5), (1, 2, 6), (2, 1, 7)), over(7))
    assert replicas.versions == [(0, 3, 5)]
