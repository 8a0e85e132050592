"""A 0.7 listener without a registry in a thread of the test, and plain sockets to it."""

import random
import socket
import struct
import threading

import gevent

from tests.support.logs import UnsyncedFileSystem
from zkbroker.broker.legacy07.handlers import Handlers07
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import Listener, Server
from zkbroker.records.legacy07 import Limits07
from zkbroker.runtime import get_runtime


class Server07:
    """Serves a directory of logs until its context ends.

    Args:
        directory: of the logs.
        limits: of connections.
        checks: of message sets; its payload limit is that of the settings.
        now_ms: the clock.
        choose: picks a partition below a number.
        settings: of `Legacy07Config`.
    """

    def __init__(
        self,
        directory,
        *,
        limits=None,
        checks=None,
        now_ms=None,
        choose=random.randrange,
        **settings,
    ):
        self.config = Legacy07Config(log_dir=str(directory), **settings)
        self._limits = limits or Limits()
        self._checks = checks or Limits07(max_payload_bytes=self.config.max_message_bytes)
        self._now_ms = now_ms
        self._choose = choose
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure = None

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(60)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_):
        self._wake.send()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self):
        try:
            import time

            now_ms = self._now_ms or (lambda: int(time.time() * 1000))
            runtime = get_runtime("gevent")
            self.logs = Legacy07Logs(
                self.config, runtime=runtime, now_ms=now_ms, fs=UnsyncedFileSystem()
            )
            self.logs.start()
            handlers = Handlers07(self.logs, self._checks, runtime, self._choose)
            self.server = Server([Listener("L", "127.0.0.1", 0)], self._limits)
            self.server.listen()
            self.address = self.server.addresses["L"]
            self.server.start(handlers.handle)
            self._wake = gevent.get_hub().loop.async_()
            stop = gevent.event.Event()
            self._wake.start(stop.set)
        except Exception as error:  # noqa: BLE001 - raised by `__enter__`
            self._failure = error
            self._ready.set()
            return
        self._ready.set()
        stop.wait()
        self.server.stop(5)
        self.logs.close()

    def connect(self):
        """Open a connection."""
        return Client07(self.address)


class Client07:
    """A plain socket that speaks frames with a length, from a local address if one is given."""

    def __init__(self, address, source=""):
        self.socket = socket.create_connection(address, 20, (source, 0) if source else None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self):
        """Return an answer without its length, None when the connection was closed."""
        head = self.read(4)
        if head is None:
            return None
        return self.read(*struct.unpack(">i", head))

    def ask(self, frame):
        self.send(frame)
        return self.receive()

    def read(self, size):
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        return data

    def read_to_the_end(self):
        data = b""
        while True:
            try:
                part = self.socket.recv(65536)
            except ConnectionResetError:
                return data
            if not part:
                return data
            data += part
