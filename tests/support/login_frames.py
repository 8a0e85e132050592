"""Frames of logins, as clients send them."""

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
