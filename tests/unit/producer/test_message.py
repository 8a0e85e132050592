"""Fields of a message, and refusal of invalid ones."""

import pytest

from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, hold_produce, make
from zkbroker.producer import EncodingFailed, KeyedMessage
from zkbroker.producer.message import check_fields, is_all_bytes
from zkbroker.producer.partitioners import DefaultPartitioner

pytestmark = pytest.mark.usefixtures("each_intake")

INVALID = {
    "bytes as topic": (KeyedMessage(b"t", b"x"), "topic must be text"),
    "half a surrogate pair": (KeyedMessage("t\udc80", b"x"), "topic must be text"),
    "text as partition": (KeyedMessage("t", b"x", partition="0"), "partition must be a whole"),
    "seconds with a fraction": (KeyedMessage("t", b"x", timestamp_ms=1.5), "timestamp_ms must"),
    "beyond 64 bits": (KeyedMessage("t", b"x", timestamp_ms=2**63), "timestamp_ms must"),
    "names without values": (KeyedMessage("t", b"x", headers={"name": b"v"}), "must be a pair"),
    "a header without a name": (
        KeyedMessage("t", b"x", headers=[(None, b"v")]),
        "a pair of a name",
    ),
    "text in a header": (KeyedMessage("t", b"x", headers=[("name", "v")]), "must hold bytes"),
}


def test_valid_message_fields_pass_check():
    headers = [("name", None), ("größe", bytearray(b"x")), ["list", memoryview(b"x")]]
    check_fields(KeyedMessage("t", b"x", partition=0, timestamp_ms=-1, headers=headers))


@pytest.mark.parametrize("name", INVALID)
def test_invalid_message_is_refused_and_others_are_stored(fake, name):
    message, error_text = INVALID[name]
    fake.create("later", [0])
    with asynchronous(fake) as producer:
        before = producer.send(KeyedMessage("t", b"before"))
        with pytest.raises(EncodingFailed, match=error_text):
            producer.send(message)
        after = producer.send([KeyedMessage("t", b"after"), KeyedMessage("later", b"x")])
        assert [each.result(WAIT_S).offset for each in (before, *after)] == [0, 1, 0]


@pytest.mark.parametrize("given", [b"bytes", "text", [KeyedMessage("t", b"x"), b"x"]])
def test_argument_that_is_not_a_message_is_refused_before_sending(fake, given):
    with make(fake) as producer:
        with pytest.raises(TypeError, match="only a KeyedMessage or a list of them can be sent"):
            producer.send(given)
        assert producer.send(KeyedMessage("t", b"first")).offset == 0


@RUNTIMES
def test_plain_message_object_can_be_reused_after_send(fake, runtime):
    fake.create("t", [0, 0, 0, 0])
    gate = hold_produce(fake)
    keys = [b"key %d" % number for number in range(8)]
    with asynchronous(fake, runtime) as producer:
        again = KeyedMessage("t", b"")
        for key in keys:
            again.message = again.key = key
            producer.send(again)
        gate.set()
    placed = {value for number in range(4) for value in fake.values("t", number)}
    assert placed == set(keys)
    for key in keys:
        assert key in fake.values("t", DefaultPartitioner().partition(key, 4))


@pytest.mark.parametrize(
    ("message", "whole"),
    [
        (KeyedMessage("t", b"x"), True),
        (KeyedMessage("t", b"x", key=b"k", timestamp_ms=7), True),
        (KeyedMessage("t", None, key=b"k"), False),
        (KeyedMessage("t", bytearray(b"x")), False),
        (KeyedMessage("t", b"x", key="k"), False),
        (KeyedMessage("t", b"x", partition=0), False),
        (KeyedMessage("t", b"x", partition_key=b"k"), False),
        (KeyedMessage("t", b"x", headers=[("h", b"")]), False),
    ],
)
def test_is_all_bytes_only_for_plain_bytes_without_partition(message, whole):
    assert is_all_bytes(message) is whole
