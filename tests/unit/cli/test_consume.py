"""`zkbroker consume`: a group's messages are written out before they count as consumed."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from zkbroker.cli import reading
from zkbroker.cli.consume import command
from zkbroker.consumer import MessageAndMetadata


class Output(io.RawIOBase):
    """Standard output that takes some writes, and then has no reader."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self.written = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.left:
            raise BrokenPipeError
        self.left -= 1
        self.written += bytes(data)
        return len(data)


class Group:
    """A group whose messages count as consumed when the next one is asked for."""

    def __init__(self) -> None:
        self.consumed: list[bytes] = []

    @contextmanager
    def member(self, *arguments: object, **named: object) -> Iterator[Iterator[MessageAndMetadata]]:
        messages = self._messages()
        yield messages
        # As a consumer that is closed, unless an exception ended the block.
        next(messages, None)

    def _messages(self) -> Iterator[MessageAndMetadata]:
        for offset, value in enumerate((b"a", b"b", b"c")):
            yield MessageAndMetadata("t", 0, offset, None, value, 1, 0, ())
            self.consumed.append(value)


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("of_coordinator_group", ["-b", "127.0.0.1:1"]),
        ("of_zookeeper_group", ["-z", "127.0.0.1:1"]),
    ],
)
@pytest.mark.parametrize("count", [[], ["-c", "3"]])
def test_message_of_a_group_that_is_not_written_is_not_consumed(
    monkeypatch: pytest.MonkeyPatch, kind: str, where: list[str], count: list[str]
) -> None:
    group, output = Group(), Output(2)
    monkeypatch.setattr(reading, kind, group.member)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(output)))
    with pytest.raises(BrokenPipeError):
        command.main([*where, "-G", "g", "t", *count], standalone_mode=False)
    assert output.written == b"a\nb\n"
    assert group.consumed == [b"a", b"b"]
    monkeypatch.undo()
    output.left = 1  # for the text that is still buffered
