import pytest

from zkbroker.console.failures import explain
from zkbroker.errors import (
    ClientError,
    ConfigError,
    ErrorCode,
    RegistryError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    ZkbrokerError,
    protocol_error,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownTopicOrPartition("there is no topic x"), 404),
        (ConfigError("give another"), 400),
        (UnsupportedVersion("speaks no such thing"), 501),
        (ClientError("members"), 409),
        (RegistryError("ZooKeeper does not answer"), 503),
        (protocol_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "x"), 403),
        (protocol_error(ErrorCode.NOT_LEADER_FOR_PARTITION, "x"), 503),
        (protocol_error(ErrorCode.TOPIC_ALREADY_EXISTS, "x"), 409),
        (ZkbrokerError("other"), 502),
        (ZkbrokerError(""), 502),
    ],
)
def test_errors_have_status_code_and_text(error, status):
    found, code, text = explain(error)
    assert found == status
    assert code == code.lower()
    assert " " not in code
    assert text


def test_every_protocol_error_is_explained():
    for code in ErrorCode:
        if code is not ErrorCode.NONE:
            status, _, text = explain(protocol_error(code, "x"))
            assert 400 <= status < 600
            assert text
