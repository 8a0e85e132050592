"""Frames: requests and responses with their headers.

    request   size:int32 | api_key:int16 api_version:int16 correlation_id:int32 client_id:string?
              | body
    (ControlledShutdown 0: size | api_key api_version correlation_id | body, no client id)
    response  size:int32 | correlation_id:int32 | body

Invariant: `size` counts all bytes after itself, file slices included. A frame for a decoder has no
`size`. The response to ApiVersions of an unserved version has the layout of version 0; every other
unserved request is refused.
"""

import struct
from typing import Any

from zkbroker.fileslice import FileSlice
from zkbroker.protocol import codec
from zkbroker.protocol.api import BROKER_VERSIONS, ApiKey, RequestHeader, supported
from zkbroker.protocol.codegen import SHORT
from zkbroker.protocol.errors import MalformedFrame, UnsupportedRequest
from zkbroker.protocol.messages import MESSAGES, ApiVersionsRequest, ApiVersionsResponse
from zkbroker.protocol.pieces import Piece

_SIZE = struct.Struct(">i")
# LeaderAndIsr, StopReplica and UpdateMetadata name every partition, each with its replicas.
_OF_THE_CONTROLLER = frozenset({4, 5, 6})
_ITEMS_OF_THE_CONTROLLER = 10
_CORRELATION_ID = struct.Struct(">i")
# ControlledShutdown, whose version 0 has no client id; a plain number, since every request is
# compared with it.
_SHORT_HEADED = int(ApiKey.CONTROLLED_SHUTDOWN)
_MAX_STRING = 0x7FFF
_REQUEST_HEADER = struct.Struct(">hhih")
_SHORT_HEADER = struct.Struct(">hhi")
_CLASSES: dict[int, tuple[type[Any], type[Any]]] = {int(key): MESSAGES[key] for key in MESSAGES}
# By plain numbers, which equal the enum's members: every request is looked up here.
_SERVED: dict[tuple[int, int], type[Any]] = {
    (int(key), version): MESSAGES[key][0]
    for key, (first, last) in BROKER_VERSIONS.items()
    for version in range(first, last + 1)
}
_JOIN_BELOW_BYTES = 4096  # a smaller record set is cheaper copied into the header than sent alone


def decode_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Decode the header of a request of any API and version.

    Returns:
        The header, and the position of the body. For the flexible headers of later protocol levels
        that is the position of their tagged fields.

    Raises:
        MalformedFrame: the frame is shorter than its header.
    """
    try:
        # A request with the short header has a body that makes up for the missing bytes.
        api_key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
    except struct.error as error:
        raise MalformedFrame("request is shorter than its header") from error
    if version == 0 and api_key == _SHORT_HEADED:
        return RequestHeader(api_key, version, correlation_id, None), _SHORT_HEADER.size
    position = _REQUEST_HEADER.size
    if length < 0:
        if length != -1:
            raise MalformedFrame(f"client id of {length} bytes")
        return RequestHeader(api_key, version, correlation_id, None), position
    end = position + length
    if end > len(frame):
        raise MalformedFrame("request ends within the client id")
    try:
        client_id = str(frame[position:end], "utf-8")
    except UnicodeDecodeError:
        client_id = codec.decode_text(frame[position:end])
    return RequestHeader(api_key, version, correlation_id, client_id), end


def decode_request(
    frame: bytes | bytearray | memoryview,
    *,
    max_items: int = codec.NO_LIMIT,
    paced: codec.Paced = iter,
) -> tuple[RequestHeader, Any]:
    """Decode a request.

    Args:
        frame: the request without its size. Records fields of the result are views of it, writable
            if it is.
        max_items: the most array items that it may have, all arrays together; a controller's
            request may have ten times as many.
        paced: iterates over the items of an array.

    Returns:
        The header and the request. An ApiVersions request of an unserved version is returned empty,
        since its body may have another layout: answer it with error 35.

    Raises:
        UnsupportedRequest: the API or version is not served.
        MalformedFrame: the bytes are not a request, or have more than `max_items`.
    """
    view = frame if isinstance(frame, memoryview) else memoryview(frame)
    header, position = decode_header(view)
    api_key, version = header.api_key, header.api_version
    request_class = _SERVED.get((api_key, version))
    if request_class is None:
        if api_key == ApiKey.API_VERSIONS:
            return header, ApiVersionsRequest()
        raise UnsupportedRequest(header)
    if api_key in _OF_THE_CONTROLLER:
        max_items *= _ITEMS_OF_THE_CONTROLLER
    request, _ = codec.decode(
        request_class, version, view, position, max_items=max_items, paced=paced
    )
    return header, request


def encode_request(header: RequestHeader, request: Any) -> list[Piece]:
    """Encode a request, size included.

    Returns:
        The pieces to send, in order; large record sets are separate pieces and not copied.

    Raises:
        ValueError: a value does not fit its wire type.
    """
    body = codec.encode(request, header.api_version)
    if header.api_version == 0 and header.api_key == _SHORT_HEADED:
        short = _SHORT_HEADER.pack(header.api_key, header.api_version, header.correlation_id)
        return _framed(short, body)
    client_id = None if header.client_id is None else header.client_id.encode()
    length = -1 if client_id is None else len(client_id)
    if length > _MAX_STRING:
        raise ValueError(f"the client id has {length} bytes: at most {_MAX_STRING} fit")
    fixed = _REQUEST_HEADER.pack(header.api_key, header.api_version, header.correlation_id, length)
    return _framed(fixed + (client_id or b""), body)


def encode_response(
    correlation_id: int,
    response: Any,
    version: int,
    paced: codec.Paced = iter,
    errors: list[int] | None = None,
) -> list[Piece]:
    """Encode a response, size included.

    Args:
        correlation_id: that of the request.
        response: the message.
        version: the request's version.
        paced: iterates over the items of an array.
        errors: every error code in the response other than 0 is appended to it.

    Returns:
        The pieces to send, in order; file slices and large record sets are separate pieces.

    Raises:
        ValueError: a value does not fit its wire type.
    """
    if isinstance(response, ApiVersionsResponse) and not supported(ApiKey.API_VERSIONS, version):
        version = 0  # a client that asks in an unserved version knows the oldest answer
    body = codec.encode(response, version, paced, errors)
    return _framed(_CORRELATION_ID.pack(correlation_id), body, paced)


def decode_response(
    api_key: int, version: int, frame: bytes | bytearray | memoryview
) -> tuple[int, Any]:
    """Decode a response to a request of this API and version.

    Args:
        api_key: that of the request.
        version: that of the request; an ApiVersions answer with error 35 is read as version 0.
        frame: the response without its size; records fields of the result are views of it.

    Returns:
        The correlation id and the response.

    Raises:
        MalformedFrame: the bytes are not such a response.
    """
    view = frame if isinstance(frame, memoryview) else memoryview(frame)
    try:
        correlation_id: int = _CORRELATION_ID.unpack_from(view)[0]
    except struct.error as error:
        raise MalformedFrame("response is shorter than its correlation id") from error
    response_class = _CLASSES[api_key][1]
    if api_key == ApiKey.API_VERSIONS and not supported(api_key, version):
        version = 0
    return correlation_id, codec.decode(response_class, version, view, _CORRELATION_ID.size)[0]


def _framed(header: bytes, body: list[Piece], paced: codec.Paced = iter) -> list[Piece]:
    size = len(header) + sum(map(len, body))
    if size < _JOIN_BELOW_BYTES:
        try:
            return [b"".join((_SIZE.pack(size), header, *body))]  # type: ignore[arg-type]
        except TypeError:
            pass  # a file slice, however small, stays one
    gathered: list[bytes | bytearray | memoryview] = [_SIZE.pack(size), header]
    parts: list[Piece] = []
    for piece in body if len(body) < SHORT else paced(body):
        if not isinstance(piece, FileSlice) and len(piece) < _JOIN_BELOW_BYTES:
            gathered.append(piece)
            continue
        if gathered:
            parts.append(b"".join(gathered))
            gathered = []
        parts.append(piece)
    if gathered:
        parts.append(b"".join(gathered))
    return parts
