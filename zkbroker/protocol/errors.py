"""What can be wrong with a frame.

Invariant: whatever bytes arrive, decoding returns a message or raises one of these two; a broker
closes the connection on either. `UnsupportedRequest` keeps the header, because the log line of who
asked for what is all that the operator of an old or new client has.
"""

from zkbroker.errors import ErrorCode, ProtocolError, UnsupportedVersion
from zkbroker.protocol.header import RequestHeader


class MalformedFrame(ProtocolError):
    """Bytes that cannot be the message they claim to be."""

    code = ErrorCode.INVALID_REQUEST


class TooManyItems(MalformedFrame):
    """More array items than the reader takes; nothing was made of the rest."""


class UnsupportedRequest(UnsupportedVersion):
    """A request of an API or version that is not served; `header` says which, and who sent it."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"api_key={header.api_key} api_version={header.api_version} is not served")
        self.header = header
