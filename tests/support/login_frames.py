"""Frames of logins: as clients send them, and mutated."""

from tests.support.login_session import request_frame
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    ProduceRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from zkbroker.security.sasl import PLAIN, SCRAM_SHA_256
from zkbroker.security.sasl.scram import SHA_256
from zkbroker.security.sasl.scram_client import ScramClient

GOOD = b"\0alice\0s3cret"


def handshake(mechanism=PLAIN, version=1):
    return request_frame(SaslHandshakeRequest(mechanism), version)


def token(data=GOOD, version=0):
    return request_frame(SaslAuthenticateRequest(data), version)


def good_frames(chance):
    """What well-behaved clients send, up to their first request."""
    client = ScramClient(SHA_256, "alice", "s3cret")
    version = chance.randrange(2)
    bare = chance.random() < 0.5
    wrapped = (lambda data: data) if bare else (lambda data: token(data, version))
    frames = [] if chance.random() < 0.5 else [request_frame(ApiVersionsRequest(), 0)]
    if chance.random() < 0.5:
        frames += [handshake(PLAIN, 0 if bare else 1), wrapped(b"\0alice\0wrong")]
    else:
        frames += [handshake(SCRAM_SHA_256, 0 if bare else 1), wrapped(client.first())]
        frames.append(wrapped(b"c=biws,r=x,p=" + b"A" * 43 + b"="))
    frames.append(request_frame(MetadataRequest(["t"]), 1))
    frames.append(request_frame(ProduceRequest(acks=1), 3))
    return frames


def mutated(frame, chance):
    changed = bytearray(frame)
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        kind = chance.randrange(5)
        at = chance.randrange(len(changed)) if changed else 0
        if kind == 0 and changed:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and changed:
            changed[at : at + chance.randrange(1, 9)] = b""
        elif kind == 2:
            changed[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 3 and len(changed) >= 4:
            changed[at : at + 4] = chance.choice(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"]
            )
        else:
            changed = bytearray(chance.randbytes(chance.randrange(0, 200)))
    return bytes(changed)
