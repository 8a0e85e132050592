"""The errors of frames.

Invariant: whatever bytes arrive, decoding returns a message or raises one of these; a broker closes
the connection on any. `UnsupportedRequest` keeps the header for the log line, which is all that the
operator of a client too old or too new sees.
"""

from zkbroker.errors import ErrorCode, ProtocolError, UnsupportedVersion
from zkbroker.protocol.header import RequestHeader


class MalformedFrame(ProtocolError):
    """Bytes that are not the expected message."""

    code = ErrorCode.INVALID_REQUEST


class TooManyItems(MalformedFrame):
    """More array items than the reader accepts; the rest was not decoded."""


class UnsupportedRequest(UnsupportedVersion):
    """A request of an API or version that is not served; `header` says which, and who sent it."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"api_key={header.api_key} api_version={header.api_version} is not served")
        self.header = header
