"""A network between processes of this machine that a test can cut.

Invariant: a cut loses nothing silently that TCP would not: bytes stay where they are, in both
directions, as when a cable is pulled; connections made meanwhile are taken and answer nothing.
When the cut is over, what was connected before it is closed, as a time-out would have done.
"""

import contextlib
import re
import socket
import threading
from typing import Self

from tests.support.sockets import wake

_BROKER = re.compile(rb"broker-(\d+)-")


class Proxy:
    """Relays connections to one port of 127.0.0.1.

    Args:
        target: the port behind it.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._cut: set[int] | None = set()
        self._pairs: list[tuple[socket.socket, socket.socket, int]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *brokers: int) -> None:
        """Block the traffic of these brokers, by their client ids; all traffic if none is given."""
        with self._lock:
            self._cut = set(brokers) or None

    def heal(self) -> None:
        """Let everything through again; what was cut is closed."""
        with self._lock:
            cut = [pair for pair in self._pairs if self._stopped(pair[2])]
            self._cut = set()
        for client, server, _ in cut:
            wake(client)
            wake(server)

    def close(self) -> None:
        wake(self._listener)
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for client, server, _ in pairs:
            wake(client)
            wake(server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _stopped(self, broker: int) -> bool:
        return self._cut is None or broker in self._cut

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                self._listener.close()
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            first = client.recv(65536)
            server = socket.create_connection(("127.0.0.1", self._target), 5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        named = _BROKER.search(first[:100])
        pair = (client, server, int(named.group(1)) if named else -1)
        with self._lock:
            self._pairs.append(pair)
        back = threading.Thread(target=self._relay, args=(server, client, pair, b""), daemon=True)
        back.start()
        self._relay(client, server, pair, first)
        back.join()
        with self._lock, contextlib.suppress(ValueError):
            self._pairs.remove(pair)
        # Only now: no other thread may enter a closed socket.
        client.close()
        server.close()

    def _relay(
        self,
        source: socket.socket,
        sink: socket.socket,
        pair: tuple[socket.socket, socket.socket, int],
        data: bytes,
    ) -> None:
        try:
            while True:
                if data:
                    if self._stopped(pair[2]):
                        # Held until the end of the cut, which closes both.
                        while source.recv(65536):
                            pass
                        return
                    sink.sendall(data)
                data = source.recv(65536)
                if not data:
                    return
        except OSError:
            return
        finally:
            wake(sink)
            wake(source)
