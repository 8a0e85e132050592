"""A broker on a plain socket, whose responses a function of the test makes."""

import socket
import threading
from collections.abc import Callable

from tests.support.sockets import shut
from zkbroker.protocol import RequestHeader, decode_request, encode_response

Answer = Callable[[RequestHeader, object], bytes | None]


def encoded(header: RequestHeader, response: object) -> bytes:
    return b"".join(encode_response(header.correlation_id, response, header.api_version))  # type: ignore[arg-type]


class PlayedBroker:
    """Answers each connection in a thread: None closes it, b"" stays silent."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[RequestHeader] = []
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.open: list[socket.socket] = []
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self.open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._serve_frames(connection)
        except OSError:
            pass  # the client was faster

    def _serve_frames(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while len(prefix := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(prefix, "big"))
                header, request = decode_request(frame)
                self.seen.append(header)
                answer = self.answer(header, request)
                if answer is None:
                    return
                connection.sendall(answer)

    def drop_connections(self) -> None:
        for connection in self.open:
            shut(connection)

    def close(self) -> None:
        shut(self._listening)
        self.drop_connections()
