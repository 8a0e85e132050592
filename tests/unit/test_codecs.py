import pytest

from zkbroker.codecs import CODEC_NAMES, FETCH_SINCE, FIRST_MAGIC, PRODUCE_SINCE, Codec
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("none", Codec.NONE),
        ("uncompressed", Codec.NONE),
        ("", Codec.NONE),
        (" GZIP ", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
def test_codec_is_found_by_name(name, codec):
    assert Codec.from_name(name) is codec


def test_unknown_codec_name_is_refused():
    with pytest.raises(ConfigError, match="brotli"):
        Codec.from_name("brotli")


def test_tables_are_indexed_by_codec_number():
    for codec in Codec:
        assert CODEC_NAMES[codec] == codec.label
        assert FIRST_MAGIC[codec] == codec.first_magic
        assert PRODUCE_SINCE[codec] == codec.produce_since
        assert FETCH_SINCE[codec] == codec.fetch_since
    assert {len(each) for each in (FIRST_MAGIC, PRODUCE_SINCE, FETCH_SINCE)} == {8}


def test_zstd_needs_magic_2_produce_7_and_fetch_10():
    assert (Codec.ZSTD.first_magic, Codec.ZSTD.produce_since, Codec.ZSTD.fetch_since) == (2, 7, 10)
