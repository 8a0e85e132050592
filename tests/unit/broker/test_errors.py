from collections.abc import Iterator

import pytest

import zkbroker.broker.node  # noqa: F401 - so that every exception of the broker is defined
from zkbroker.broker.errors import error_code
from zkbroker.errors import (
    ConfigError,
    CorruptMessage,
    ErrorCode,
    ProtocolError,
    RegistryError,
    StorageError,
    ZkbrokerError,
)
from zkbroker.zookeeper.errors import NodeExists, NoNode


def every(kind: type[ZkbrokerError]) -> Iterator[type[ZkbrokerError]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from every(subclass)


@pytest.mark.parametrize("kind", sorted(set(every(ZkbrokerError)), key=lambda kind: kind.__name__))
def test_every_exception_has_a_code(kind: type[ZkbrokerError]) -> None:
    error = kind.__new__(kind)
    Exception.__init__(error, "made by a test")
    code = error_code(error)
    assert isinstance(code, ErrorCode)
    assert code is not ErrorCode.NONE


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
def test_codes(error: ZkbrokerError, code: int) -> None:
    assert error_code(error) == code


def test_a_defect_is_logged_and_unknown(caplog: pytest.LogCaptureFixture) -> None:
    assert error_code(KeyError("oops")) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "KeyError('oops')" in caplog.text
