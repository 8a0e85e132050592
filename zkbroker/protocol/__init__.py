"""The wire protocol: messages as data, one versioned codec, and framing; no sockets, no files.

Record sets pass through as opaque bytes or as slices of a file.
"""

from zkbroker.protocol.api import (
    BROKER_VERSIONS,
    SUPPORTED_VERSIONS,
    ApiKey,
    RequestHeader,
    supported,
)
from zkbroker.protocol.errors import MalformedFrame, TooManyItems, UnsupportedRequest
from zkbroker.protocol.framing import (
    decode_header,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from zkbroker.protocol.messages import MESSAGES
from zkbroker.protocol.pieces import Piece, Records

__all__ = [
    "ApiKey",
    "BROKER_VERSIONS",
    "SUPPORTED_VERSIONS",
    "supported",
    "MESSAGES",
    "RequestHeader",
    "Piece",
    "Records",
    "decode_header",
    "decode_request",
    "encode_request",
    "decode_response",
    "encode_response",
    "MalformedFrame",
    "TooManyItems",
    "UnsupportedRequest",
]
