"""Requests and answers of Kafka 0.7 on the wire.

    request   size:i32  id:i16  body           answer   size:i32  error:i16  body

    0 produce       topic partition:i32 set_size:i32 set            no answer, ever
    1 fetch         topic partition:i32 offset:i64 max_bytes:i32    bytes of the log
    2 multifetch    count:i16 { fetch body }       { size:i32 error:i16 bytes }, outer error 0
    3 multiproduce  count:i16 { produce body }                      no answer
    4 offsets       topic partition:i32 time:i64 max:i32            count:i32 { offset:i64 }

A topic is an i16 length and UTF-8. There is no version, correlation id or client id. Bytes after a
body are ignored.

Invariant: a decoder never reads beyond the request; message sets in its result are views of it.
"""

from zkbroker.protocol.legacy07.answers import (
    decode_answer,
    decode_multifetch,
    decode_offsets,
    encode_answer,
    encode_offsets,
    part_head,
)
from zkbroker.protocol.legacy07.requests import (
    Api07,
    Fetch07,
    MultiFetch07,
    MultiProduce07,
    Offsets07,
    Produce07,
    Request07,
    decode_request,
    encode_request,
)

__all__ = [
    "Api07",
    "Fetch07",
    "MultiFetch07",
    "MultiProduce07",
    "Offsets07",
    "Produce07",
    "Request07",
    "decode_answer",
    "decode_multifetch",
    "decode_offsets",
    "decode_request",
    "encode_answer",
    "encode_offsets",
    "encode_request",
    "part_head",
]
