"""Records of every kind for the property tests."""

from functools import cache

from hypothesis import strategies as st

from zkbroker.records import Codec

FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in Codec if codec.first_magic <= magic]

# Lengths at the limits of varint sizes, nulls and empty values.
payloads = st.one_of(
    st.none(),
    st.just(b""),
    st.binary(max_size=40),
    st.sampled_from([b"x" * n for n in (63, 64, 65, 127, 128, 8191, 8192, 8193)]),
)
timestamps = st.one_of(
    st.just(-1),
    st.integers(0, 2**61),
    st.integers(1_500_000_000_000, 1_500_000_010_000),
    st.sampled_from([0, 1, 2**31, 2**61]),
)
headers = st.lists(
    st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=70))), max_size=3
).map(tuple)


@cache
def unsent(magic: int, max_size: int):
    """Return lists of keys, values, timestamps and headers that the magic can store."""
    records = st.tuples(
        payloads,
        payloads,
        timestamps if magic else st.just(-1),
        headers if magic == 2 else st.just(()),
    )
    return st.lists(records, min_size=1, max_size=max_size)


@st.composite
def formats_and_records(draw, max_size=12):
    magic, codec = draw(st.sampled_from(FORMATS))
    return magic, codec, draw(unsent(magic, max_size))
