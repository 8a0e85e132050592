"""Well-formed but unreasonable requests: the broker lives, and other clients are not affected."""

import contextlib
import random
import resource
import socket
import struct

import pytest

from tests.support import soak
from tests.support.broker_requests import fetch, message_set, produce, values
from tests.support.brokers import connect, running_broker
from tests.support.process import eventually, resident_bytes
from tests.support.random_requests import random_request
from zkbroker.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from zkbroker.protocol.messages.configs import DescribeConfigsResource
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.protocol.messages.topics import NewPartitions, NewTopic

BYSTANDER = "bystander"


@pytest.fixture(scope="module")
def broker(zookeeper, tmp_path_factory):
    with running_broker(
        tmp_path_factory.mktemp("hostile"),
        f"{zookeeper.connect_string}/hostile",
        {
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "log.retention.ms": "-1",
            "group.initial.rebalance.delay.ms": "0",
        },
        "t",
        BYSTANDER,
    ) as process:
        yield process


def send_random(process, count, seed):
    """Send random requests, reading most of the answers, while a bystander works."""
    chance = random.Random(seed)
    connection = None
    with connect(process, "good") as good:
        good.request(FindCoordinatorRequest("g"))
        for number in range(count):
            if connection is None:
                connection = socket.create_connection(process.address, 20)
                connection.settimeout(0.05)
            try:
                connection.sendall(random_request(chance))
                size = connection.recv(4, socket.MSG_WAITALL)
                left = struct.unpack(">i", size)[0] if len(size) == 4 else 0
                while left > 0 and (got := len(connection.recv(min(left, 65536)))):
                    left -= got
                if not size or left:
                    raise ConnectionError
            except OSError:
                # Closed, no response (acks=0), or one that waits: all are fine.
                connection.close()
                connection = None
            if number % 100 == 0:
                # Some of the random requests delete it.
                good.request(CreateTopicsRequest([NewTopic("t", 2, 1)], 1000))
                stored = produce(good, BYSTANDER, message_set(2, [b"between"]))
                assert stored.error_code == 0
                found = fetch(good, BYSTANDER, stored.base_offset)
                assert values(found, stored.base_offset)[0] == b"between"
    if connection is not None:
        connection.close()


def harmless(process, count):
    send_random(process, max(500, count // 10), 1)
    before = resident_bytes(process.pid)
    send_random(process, count, count)
    assert process.alive
    grown = resident_bytes(process.pid) - before
    assert grown < 100 << 20, f"{grown} bytes grown by {count} requests"
    log = process.log_path.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]


def test_random_requests_of_every_api_do_no_harm(broker):
    harmless(broker, 3000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_random_requests_do_no_harm(broker):
    harmless(broker, soak.part_of(87_000))


def test_repeated_items_are_answered_once(broker):
    with connect(broker) as connection:
        again = DescribeConfigsRequest([DescribeConfigsResource(2, BYSTANDER, None)] * 5000)
        assert len(connection.request(again).resources) == 1
        partitions = [ListOffsetsRequestPartition(0, timestamp=-1)] * 5000
        listed = connection.request(
            ListOffsetsRequest(topics=[ListOffsetsRequestTopic(BYSTANDER, partitions)])
        )
        assert [len(topic.partitions) for topic in listed.topics] == [1]


def test_too_many_items_in_a_request_close_the_connection(broker):
    with connect(broker) as connection, contextlib.suppress(Exception):
        connection.request(MetadataRequest(["t"] * 200_001))
        pytest.fail("answered")
    eventually(lambda: "request.max.items=200000" in broker.log_path.read_text(), timeout_s=20)


def test_partitions_above_the_open_files_limit_are_refused(broker):
    assert broker.pid is not None
    with connect(broker) as connection:
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (1000, hard))
        try:
            request = CreatePartitionsRequest([NewPartitions(BYSTANDER, 90_000, None)], 1000, False)
            (answer,) = connection.request(request).topics
        finally:
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert answer.error_code == 37
    assert "open files (ulimit -n)" in answer.error_message


def test_describe_acls_without_authorizer_is_error_54(broker):
    with connect(broker) as connection:
        assert connection.request(DescribeAclsRequest()).error_code == 54


def test_log_directories_are_described(broker):
    with connect(broker) as connection:
        produce(connection, BYSTANDER, message_set(2, [b"x" * 1000]))
        (directory,) = connection.request(DescribeLogDirsRequest()).log_dirs
        assert directory.log_dir == str(broker.data_directory)
        topics = {topic.topic: topic.partitions for topic in directory.topics}
        assert topics[BYSTANDER][0].partition == 0
        assert topics[BYSTANDER][0].size > 1000
        assert topics[BYSTANDER][0].offset_lag == 0
