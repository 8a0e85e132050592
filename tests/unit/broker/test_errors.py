import pytest

import zkbroker.broker.node  # noqa: F401 - so that every exception of the broker is defined
from zkbroker.broker.errors import error_code, partition_error_code
from zkbroker.errors import (
    ConfigError,
    CorruptMessage,
    ErrorCode,
    NotLeaderForPartition,
    ProtocolError,
    RegistryError,
    StorageError,
    ZkbrokerError,
)
from zkbroker.protocol import ApiKey
from zkbroker.zookeeper.errors import NodeExists, NoNode


def every(kind):
    for subclass in kind.__subclasses__():
        yield subclass
        yield from every(subclass)


def test_every_exception_has_a_code():
    # Those of all modules that are imported by now; tests must not depend on which those are.
    for kind in set(every(ZkbrokerError)):
        error = kind.__new__(kind)
        Exception.__init__(error, "made by a test")
        code = error_code(error)
        assert isinstance(code, ErrorCode), kind
        assert code is not ErrorCode.NONE, kind


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CorruptMessage(), 2),
        (ProtocolError(code=ErrorCode.INVALID_PARTITIONS), 37),
        (StorageError(), 56),
        (ConfigError(), 40),
        (NodeExists(), 36),
        (NoNode(), 3),
        (RegistryError(), 7),
    ],
)
def test_exceptions_map_to_error_codes(error, code):
    assert error_code(error) == code


@pytest.mark.parametrize(("api", "since"), [(ApiKey.PRODUCE, 4), (ApiKey.FETCH, 6)])
def test_storage_error_is_sent_as_not_leader_to_old_clients(api, since):
    # ProduceResponse and FetchResponse of genuine brokers, KIP-112.
    for version in range(since + 2):
        code = partition_error_code(StorageError(), api, version)
        assert code == (6 if version < since else 56)
        assert partition_error_code(NotLeaderForPartition(), api, version) == 6


def test_unexpected_exception_is_logged_as_unknown_server_error(caplog):
    assert error_code(KeyError("oops")) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "KeyError('oops')" in caplog.text
