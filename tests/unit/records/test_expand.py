import pytest

from zkbroker.errors import CorruptMessage, ErrorCode, MessageSizeTooLarge
from zkbroker.records import (
    AppendPolicy,
    Codec,
    RequestBudget,
    compress,
    encode_message_set,
    expand_set,
    iter_records,
    prepare_append,
)
from zkbroker.records.entries import seal_batch
from zkbroker.records.portable.messages import encode_message
from zkbroker.records.varint import encode_varint

LIMIT = 2**30


def batch(count, codec=Codec.ZSTD, size=10):
    return encode_message_set([(None, bytes(size), 1000, ())] * count, codec=codec)


def bomb(count, *, delta=0):
    """Return a small batch of many minimal records with equal offset deltas."""
    body = b"\x00\x00" + encode_varint(delta) + b"\x01\x01\x00"
    record = encode_varint(len(body)) + body
    head = bytearray(batch(1)[:61])
    payload = compress(Codec.ZSTD, record * count)
    out = head + payload
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[23:27] = (count - 1).to_bytes(4, "big")
    out[57:61] = count.to_bytes(4, "big")
    seal_batch(out)
    return out


def test_record_count_is_checked_before_decompression():
    data = bomb(200_000)
    assert len(data) < 1000
    budget = RequestBudget(LIMIT, 100_000)
    with pytest.raises(MessageSizeTooLarge, match="more than 100000 records"):
        expand_set(data, budget, max_message_bytes=LIMIT, offload=pytest.fail)


def test_non_dense_offset_deltas_are_refused():
    for data in (bomb(1000), bomb(5, delta=3)):
        with pytest.raises(CorruptMessage, match="not 0, 1, 2"):
            prepare_append(data, 0, AppendPolicy(), 0)
    assert prepare_append(bomb(1), 0, AppendPolicy(), 0).count == 1


def test_budget_is_shared_by_all_sets_of_request():
    budget = RequestBudget(1_000_000, 100)
    data = batch(40, size=10_000)
    for _ in range(2):
        expand_set(data, budget, max_message_bytes=LIMIT)
    with pytest.raises(MessageSizeTooLarge, match="more than 100 records"):
        expand_set(data, budget, max_message_bytes=LIMIT)
    with pytest.raises(MessageSizeTooLarge, match="expands") as caught:
        expand_set(batch(10, size=100_000), budget, max_message_bytes=LIMIT)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_only_large_sets_are_expanded_in_another_thread():
    offloaded = []

    def offload(function, *args):
        offloaded.append(args[-1])
        return function(*args)

    small = expand_set(batch(100), RequestBudget(), max_message_bytes=LIMIT, offload=offload)
    assert (offloaded, small.large) == ([], False)
    much = expand_set(
        batch(20, size=100_000), RequestBudget(LIMIT), max_message_bytes=LIMIT, offload=offload
    )
    assert (len(offloaded), much.large) == (1, True)


def test_append_uses_expanded_payloads():
    data = batch(100) + encode_message(1, 4, None, compress(Codec.GZIP, inner()), 9, Codec.GZIP)
    expanded = expand_set(data, RequestBudget(), max_message_bytes=LIMIT)
    assert sorted(expanded.payloads) == [0, len(batch(100))]
    with_it = prepare_append(bytearray(data), 7, AppendPolicy(), 0, expanded)
    assert bytes(with_it.data) == bytes(prepare_append(bytearray(data), 7, AppendPolicy(), 0).data)
    assert [record.offset for record in iter_records(with_it.data)] == list(range(7, 110))


def inner():
    return b"".join(encode_message(1, at, None, b"v", 1000) for at in range(3))


def test_plain_and_damaged_sets_are_not_expanded():
    for data in (batch(3, Codec.NONE), batch(3)[:-1], batch(3)[:10], b""):
        assert expand_set(data, RequestBudget(), max_message_bytes=LIMIT).payloads == {}
    assert expand_set(batch(50), RequestBudget(), max_message_bytes=60).payloads == {}


@pytest.mark.parametrize("codec", [number for number in range(8) if number not in set(Codec)])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_unknown_codec_in_entry_is_refused(magic, codec):
    if magic == 2:
        data = bytearray(batch(1, Codec.NONE))
        data[22] |= codec
        seal_batch(data)
    else:
        data = bytearray(encode_message(magic, 0, None, b"x", 0, codec))
    with pytest.raises(CorruptMessage, match="unknown compression codec"):
        prepare_append(bytearray(data), 0, AppendPolicy(), 0)
    with pytest.raises(CorruptMessage):
        expand_set(data, RequestBudget(), max_message_bytes=LIMIT)
        prepare_append(bytearray(data), 0, AppendPolicy(), 0)
