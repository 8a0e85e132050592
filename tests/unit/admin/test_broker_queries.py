import json

import pytest
from click.testing import CliRunner

from tests.support.fake_broker import CLOSE, FakeCluster
from zkbroker.cli.main import cli
from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    DeleteRecordsResponse,
    DescribeLogDirsResponse,
    ElectPreferredLeadersResponse,
)
from zkbroker.protocol.messages.elect_preferred_leaders import ElectedPartition, ElectedTopic
from zkbroker.protocol.messages.log_dirs import LogDir, LogDirPartition, LogDirTopic
from zkbroker.protocol.messages.topics import (
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)


@pytest.fixture
def brokers():
    with FakeCluster(2) as fake:
        fake.create("visits", [0, 1])
        yield fake


def run(fake, *arguments, status=0):
    ran = CliRunner().invoke(cli, [*arguments, "-b", fake.addresses])
    failure = f"{ran.stderr}{ran.exception}"
    assert ran.exit_code == status, failure
    return failure if status else ran.stdout


def directory(size, lag=0):
    part = LogDirPartition(partition=0, size=size, offset_lag=lag)
    return LogDir(0, "/data", [LogDirTopic("visits", [part])])


def test_log_dirs_lists_answers_and_names_silent_brokers(brokers):
    failed = LogDir(ErrorCode.KAFKA_STORAGE_ERROR, "/bad")
    found = DescribeLogDirsResponse(log_dirs=[directory(1234), failed])
    brokers.faults[ApiKey.DESCRIBE_LOG_DIRS, 0] = lambda _: found
    brokers.faults[ApiKey.DESCRIBE_LOG_DIRS, 1] = lambda _: CLOSE
    ran = CliRunner().invoke(cli, ["log-dirs", "-b", brokers.addresses])
    assert ran.exit_code == 1
    assert "not every broker answered: broker 1: " in str(ran.exception)
    rows = [line.split() for line in ran.stdout.splitlines()[1:]]
    assert rows == [
        ["0", "/data", "1", "1,234", "-"],
        ["0", "/bad", "0", "0", "KAFKA_STORAGE_ERROR", "(56)"],
    ]


def test_unknown_apis_and_newer_versions_are_listed(brokers):
    brokers.versions[int(ApiKey.FETCH)] = (12, 13)
    brokers.versions[61] = (0, 0)
    shown = run(brokers, "api-versions", "--genuine-text")
    assert "\tFetch(1): 12 to 13 [unusable: node too new],\n" in shown
    assert "\tUNKNOWN(61): 0\n)\n" in shown
    del brokers.versions[int(ApiKey.DELETE_GROUPS)]
    assert "DeleteGroups(42): UNSUPPORTED" in run(brokers, "api-versions", "--genuine-text")
    assert json.loads(run(brokers, "api-versions", "--json"))["0"]["Fetch"] == [12, 13]


def test_records_are_deleted_at_new_leader(brokers):
    def moved(request):
        brokers.leaders["visits"][0] = 1
        part = DeleteRecordsResponsePartition(
            partition=0, low_watermark=-1, error_code=ErrorCode.NOT_LEADER_FOR_PARTITION
        )
        return DeleteRecordsResponse(topics=[DeleteRecordsResponseTopic("visits", [part])])

    def deleted(request):
        (topic,) = request.topics
        parts = [DeleteRecordsResponsePartition(each.partition, 5) for each in topic.partitions]
        return DeleteRecordsResponse(topics=[DeleteRecordsResponseTopic("visits", parts)])

    brokers.faults[ApiKey.DELETE_RECORDS, 0] = moved
    brokers.faults[ApiKey.DELETE_RECORDS, 1] = deleted
    shown = run(brokers, "records", "delete", "visits-0:5", "visits-1:end")
    assert shown == "visits-0 starts at offset 5\nvisits-1 starts at offset 5\n"


def test_controller_elects_preferred_leaders(brokers):
    def answer(code):
        parts = [ElectedPartition(0, code, code.name if code else None)]
        return ElectPreferredLeadersResponse(topics=[ElectedTopic("visits", parts)])

    brokers.faults[ApiKey.ELECT_PREFERRED_LEADERS, 0] = lambda _: answer(ErrorCode.NOT_CONTROLLER)
    brokers.faults[ApiKey.ELECT_PREFERRED_LEADERS, 1] = lambda _: answer(ErrorCode.NONE)
    assert run(brokers, "elect", "visits-0") == "preferred replicas lead visits-0\n"
    absent = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    brokers.faults[ApiKey.ELECT_PREFERRED_LEADERS, 1] = lambda _: answer(absent)
    failure = run(brokers, "elect", "visits-0", status=1)
    assert "visits-0: not elected: its preferred replica is not in sync" in failure
    brokers.faults[ApiKey.ELECT_PREFERRED_LEADERS, 1] = lambda _: CLOSE
    failure = run(brokers, "elect", "visits-0", status=1)
    assert "no broker that answers is the controller" in failure
