"""Recorded requests of clients, sent again to a broker over a raw socket."""

import socket
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from zkbroker.errors import CorruptMessage
from zkbroker.records import iter_records


@dataclass
class Exchange:
    """A recorded request and the response of the genuine broker (None: it closed the connection).

    `line` is its number in the recording.
    """

    name: str
    line: int
    api_key: int
    version: int
    correlation_id: int
    request: bytes
    response: bytes | None

    @classmethod
    def from_row(cls, line: int, row: dict[str, Any]) -> "Exchange":
        return cls(
            row["name"],
            line,
            row["api_key"],
            row["api_version"],
            row["correlation_id"],
            bytes.fromhex(row["request"]),
            None if row["response"] is None else bytes.fromhex(row["response"]),
        )


class Wire:
    """Raw requests over one socket, opened again when the broker closed it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.socket: socket.socket | None = None

    def send(self, request: bytes) -> None:
        if self.socket is None:
            self.socket = socket.create_connection(self.address, 30)
            self.socket.settimeout(30)
        self.socket.sendall(len(request).to_bytes(4, "big") + request)

    def ask(self, request: bytes) -> bytes | None:
        self.send(request)
        prefix = self._receive(4)
        answer = None if prefix is None else self._receive(int.from_bytes(prefix, "big"))
        if answer is None:
            self.close()
        return answer

    def _receive(self, count: int) -> bytes | None:
        data = b""
        assert self.socket is not None
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                return None
            data += chunk
        return data

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def plain(value: Any) -> Any:
    """Return a message as dicts and lists, with views as bytes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value


def content(data: bytes) -> list[object]:
    """Return the records of a set, and the error of its unreadable end."""
    found: list[object] = []
    try:
        for record in iter_records(data):
            found.append(record)  # noqa: PERF402 - kept up to the error
    except CorruptMessage as error:
        found.append(str(error))
    return found
