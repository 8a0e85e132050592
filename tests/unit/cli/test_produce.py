import io

import pytest

from zkbroker.cli import produce
from zkbroker.cli.produce import read_messages


class Pipe(io.BytesIO):
    """Returns one written piece for each read, as a pipe does."""

    def __init__(self, *pieces):
        super().__init__()
        self.pieces = list(pieces)

    def read1(self, size=-1):
        return self.pieces.pop(0) if self.pieces else b""


@pytest.mark.parametrize(
    ("data", "delimiter", "messages"),
    [
        (b"a\nb\n", b"\n", [b"a", b"b"]),
        (b"a\n\nb", b"\n", [b"a", b"", b"b"]),
        (b"", b"\n", []),
        (b"a--b", b"--", [b"a", b"b"]),
    ],
)
def test_input_is_split_at_delimiters(data, delimiter, messages):
    assert list(read_messages(io.BytesIO(data), delimiter)) == messages


def test_message_is_yielded_once_its_delimiter_is_read():
    messages = read_messages(Pipe(b"a\nb", b"c-", b"-d\n"), b"\n")
    assert next(messages) == b"a"
    assert list(messages) == [b"bc--d"]


def test_delimiter_across_two_blocks(monkeypatch):
    monkeypatch.setattr(produce, "_BLOCK_BYTES", 3)
    assert list(read_messages(io.BytesIO(b"ab--cd--"), b"--")) == [b"ab", b"cd"]
