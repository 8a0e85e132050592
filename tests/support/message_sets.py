"""Message sets for tests of readers."""

from zkbroker.records import Codec, MessageSetBuilder


def message_set(magic: int, count: int, *, base: int = 0, codec: Codec = Codec.NONE) -> bytes:
    builder = MessageSetBuilder(magic, codec)
    for i in range(count):
        builder.append(b"key", b"value %d" % i, 1_500_000_000_000 + i)
    return builder.build(base)
