import pytest

from zkbroker.errors import (
    ErrorCode,
    OffsetOutOfRange,
    ProtocolError,
    UnsupportedVersion,
    protocol_error,
)


def test_every_code_becomes_an_exception():
    for code in ErrorCode:
        error = protocol_error(code, "fetch from t-0")
        assert error.code is code
        assert "fetch from t-0" in str(error)
        assert code.name in str(error)


def test_named_exception_is_used_for_its_code():
    assert isinstance(protocol_error(1), OffsetOutOfRange)
    assert type(protocol_error(29)) is ProtocolError


@pytest.mark.parametrize("code", [29, 30, 31, 53])
def test_authorization_error_names_the_remedy(code):
    assert f"({code}): the ACLs do not allow it" in str(protocol_error(code, "topic t"))
    assert "zkbroker acls add" in str(protocol_error(code))


def test_unknown_code_is_reported_with_its_number():
    error = protocol_error(9999)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in str(error)


@pytest.mark.parametrize("code", [5, 6, 7, 13, 14, 15, 16, 56])
def test_transient_errors_are_retriable(code):
    assert ErrorCode(code).retriable


@pytest.mark.parametrize("code", [0, 1, 10, 17, 43, 45, 47, 76])
def test_permanent_errors_are_not_retriable(code):
    assert not ErrorCode(code).retriable


def test_subclass_does_not_replace_the_registered_exception():
    class Special(UnsupportedVersion):
        pass

    assert ProtocolError.registered[ErrorCode.UNSUPPORTED_VERSION] is UnsupportedVersion
    assert Special().code is ErrorCode.UNSUPPORTED_VERSION
