"""Errors of frames.

Invariant: for any bytes, decoding returns a message or raises `MalformedFrame` or
`UnsupportedRequest`; a broker closes the connection on either. `UnsupportedRequest` keeps the
header for the log line, the only diagnostic for the operator of a client that is too old or new.
"""

from zkbroker.errors import ErrorCode, ProtocolError, UnsupportedVersion
from zkbroker.protocol.api import RequestHeader


class MalformedFrame(ProtocolError):
    """The bytes are not a valid message of their API and version."""

    code = ErrorCode.INVALID_REQUEST


class TooManyItems(MalformedFrame):
    """More array items than the reader allows; the rest was not decoded."""


class UnsupportedRequest(UnsupportedVersion):
    """A request of an API or version that is not served; `header` is that of the request."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"api_key={header.api_key} api_version={header.api_version} is not served")
        self.header = header
