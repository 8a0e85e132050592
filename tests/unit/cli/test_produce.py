"""Input is split into messages as it comes."""

import io

import pytest

from zkbroker.cli import produce
from zkbroker.cli.produce import read_messages


class Pipe(io.BytesIO):
    """Gives what one call to write put in, as a pipe does."""

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
def test_what_stands_between_delimiters(data, delimiter, messages):
    assert list(read_messages(io.BytesIO(data), delimiter)) == messages


def test_a_message_is_there_as_soon_as_its_delimiter_is():
    messages = read_messages(Pipe(b"a\nb", b"c-", b"-d\n"), b"\n")
    assert next(messages) == b"a"
    assert list(messages) == [b"bc--d"]


def test_a_delimiter_over_the_edge_of_two_blocks(monkeypatch):
    monkeypatch.setattr(produce, "_BLOCK_BYTES", 3)
    assert list(read_messages(io.BytesIO(b"ab--cd--"), b"--")) == [b"ab", b"cd"]
