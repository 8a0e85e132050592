"""Requests that wait for a replica hold nothing that other requests need."""

import select
import socket
import time

import pytest

from tests.support.brokers import connect
from tests.support.process import wait_until
from zkbroker.errors import ErrorCode
from zkbroker.protocol import RequestHeader, decode_response, encode_request
from zkbroker.protocol.messages import (
    FetchRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    OffsetCommitRequest,
)
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

REQUESTS = 500
"""As many as `queued.max.requests` allows to be worked on."""


@pytest.fixture(scope="module")
def cluster(local_cluster):
    settings = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        # Long enough for the test to look: no request times out, and no replica leaves the ISR.
        "offsets.commit.timeout.ms": "60000",
        "replica.lag.time.max.ms": "60000",
        "zookeeper.session.timeout.ms": "60000",
    }
    with local_cluster(2, properties=settings, replication=2) as running:
        running.create_topic("t")
        yield running


def commit(number):
    partition = OffsetCommitRequestPartition(partition=0, offset=number)
    return OffsetCommitRequest(
        f"group-{number}", topics=[OffsetCommitRequestTopic("t", [partition])]
    )


def begin(number):
    return InitProducerIdRequest(f"id-{number}", 10_000)


def committed(answer):
    return answer.topics[0].partitions[0].error_code


def begun(answer):
    return answer.error_code


@pytest.mark.parametrize(
    ("key_type", "make", "version", "error_of"),
    [(0, commit, 5, committed), (1, begin, 1, begun)],
    ids=["commits", "transactions"],
)
def test_fetch_is_served_while_500_requests_wait(cluster, key_type, make, version, error_of):
    find = FindCoordinatorRequest("any", key_type)
    with connect(cluster.broker(1)) as asked:
        assert wait_until(lambda: asked.request(find).error_code == ErrorCode.NONE)
        leader = asked.request(find).node_id
    follower = cluster.broker(3 - leader)
    sockets = [socket.create_connection(cluster.broker(leader).address) for _ in range(REQUESTS)]
    with connect(cluster.broker(leader)) as connection:
        assert wait_until(
            lambda: error_of(connection.request(make(REQUESTS), version)) == ErrorCode.NONE
        )
        follower.pause()
        try:
            for number, each in enumerate(sockets):
                request = make(number)
                header = RequestHeader(request.api_key, version, number, "many")
                each.sendall(b"".join(bytes(part) for part in encode_request(header, request)))
            time.sleep(0.5)  # for all of them to arrive; a fetch that comes first proves less
            wanted = FetchRequestPartition(0, fetch_offset=0, max_bytes=1000)
            connection.request(
                FetchRequest(max_wait_ms=0, topics=[FetchRequestTopic("t", [wanted])])
            )
            poller = select.poll()
            for each in sockets:
                poller.register(each, select.POLLIN)
            assert poller.poll(0) == []
        finally:
            follower.resume()
        for number, each in enumerate(sockets):
            with each, each.makefile("rb") as stream:
                size = int.from_bytes(stream.read(4), "big")
                frame = stream.read(size)
            correlation_id, answer = decode_response(make(number).api_key, version, frame)
            assert (correlation_id, error_of(answer)) == (number, ErrorCode.NONE)
