"""A console as a process, a client of its API, and a producer and a consumer for its clusters."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.producer import Producer

READY = "zkbroker console ready address="
TIMEOUT_S = 120


class ConsoleClient:
    """A client of one console. Args: base is its address; cafile has its certificate."""

    def __init__(self, base: str, cafile: str | None = None) -> None:
        self.base = base
        found = urlsplit(base)
        self._where = (found.hostname or "", found.port or 0)
        self._context = ssl.create_default_context(cafile=cafile) if cafile else None
        self.cookie: str | None = None
        self.csrf: str | None = None
        self._cluster: str | None = None
        self.expected_in_log: str | None = None
        """A text that its log must contain at the end."""

    def ask(self, method: str, path: str, body: object = None, **headers: str):
        """Return status, headers and bytes."""
        connection = (
            http.client.HTTPConnection(*self._where, timeout=TIMEOUT_S)
            if self._context is None
            else http.client.HTTPSConnection(*self._where, timeout=TIMEOUT_S, context=self._context)
        )
        sent = dict(headers)
        if self.cookie:
            sent["Cookie"] = self.cookie
        if self.csrf and method != "GET":
            sent.setdefault("X-CSRF-Token", self.csrf)
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, "/" + path, data, sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path: str):
        """Return the JSON of a response with status 200."""
        status, _, data = self.ask("GET", path)
        assert status == 200, (path, status, data[:500])
        return json.loads(data)

    def of(self, path: str):
        """Return the JSON of a view of the first cluster."""
        return self.get(f"api/clusters/{self.cluster}/{path}")

    def refused(self, path: str, method: str = "GET", body: object = None):
        """Return status and JSON of a refusal."""
        status, _, data = self.ask(method, path, body)
        assert status >= 400, (path, status)
        return status, json.loads(data)

    def post(self, path: str, body: object):
        """Return status and JSON of an action on the first cluster."""
        status, _, data = self.ask("POST", f"api/clusters/{self.cluster}/{path}", body)
        return status, json.loads(data)

    @property
    def cluster(self) -> str:
        """The id of the first cluster."""
        if self._cluster is None:
            found = self.get("api/session")
            self._cluster, self.csrf = found["clusters"][0]["id"], found["csrf"]
        return self._cluster

    def log_in(self, user: str, password: str):
        """Log in; return the session."""
        status, headers, data = self.ask("POST", "api/login", {"user": user, "password": password})
        assert status == 200, data
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        found = json.loads(data)
        self.csrf = found["csrf"]
        return found

    def eventually(self, path: str, good, timeout_s: float = 120.0):
        """Return the view once the condition holds."""
        deadline = time.monotonic() + timeout_s
        while True:
            status, _, data = self.ask("GET", f"api/clusters/{self.cluster}/{path}")
            # Until the cluster was reached, a topic was seen, and while leaders move.
            assert status in (200, 404, 503), (path, status, data[:500])
            found = json.loads(data)
            if status == 200 and good(found):
                return found
            assert time.monotonic() < deadline, (path, found)
            time.sleep(0.1)

    @contextmanager
    def events(self, path: str) -> Iterator[Iterator[tuple[str, object]]]:
        """Yield the events of a stream of the first cluster."""
        connection = http.client.HTTPConnection(*self._where, timeout=TIMEOUT_S)
        headers = {"Cookie": self.cookie} if self.cookie else {}
        connection.request("GET", f"/api/clusters/{self.cluster}/{path}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()[:500]
        try:
            yield _events(answer)
        finally:
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()


def _events(answer) -> Iterator[tuple[str, object]]:
    name = ""
    for line in iter(answer.readline, b""):
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


def open_producer(cluster, **settings: str) -> Producer:
    """Return a producer that waits for all replicas, unless settings say otherwise."""
    discovery = {"metadata.broker.list": cluster.bootstrap_servers, "request.required.acks": "-1"}
    return Producer(ProducerConfig.from_properties({**discovery, **settings}))


def read_messages(consumer: GroupConsumer, count: int) -> None:
    """Read that many messages."""
    while count > 0:
        count -= len(consumer.poll(1.0, count))


@contextmanager
def running_console(
    *arguments: str, cafile: str | None = None, environment: dict[str, str] | None = None
) -> Iterator[ConsoleClient]:
    """Run `zkbroker console` on a free port until the block ends."""
    command = [sys.executable, "-m", "zkbroker.cli", "console", "--port", "0", *arguments]
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end of the block
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), (line, _ended(process, log))
        client = ConsoleClient(line.removeprefix(READY).strip(), cafile)
        client.process = process
        client.log = lambda: _read(log)
        yield client
        text = _ended(process, log)
        assert "Traceback" not in text, text
        assert (client.expected_in_log or "") in text, text
    finally:
        process.kill()
        process.communicate()
        log.close()


def _ended(process, log) -> str:
    """End a process; return its log."""
    process.terminate()
    process.communicate(timeout=TIMEOUT_S)
    return _read(log)


def _read(log) -> str:
    log.seek(0)
    return log.read()
