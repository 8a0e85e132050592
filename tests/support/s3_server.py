"""A server that speaks S3's protocol, in a process of its own: moto's."""

import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.process import wait_until
from zkbroker.errors import ZkbrokerError
from zkbroker.zookeeper.embedded import free_port


class S3Server:
    """A running server.

    Attributes:
        options: storage options by which it is reached.
    """

    def __init__(self, port: int) -> None:
        self._endpoint = f"http://127.0.0.1:{port}"
        self.options = {
            "AWS_ENDPOINT_URL": self._endpoint,
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def bucket(self) -> str:
        """Make a bucket and return its name."""
        name = f"bucket-{uuid.uuid4().hex[:8]}"
        request = urllib.request.Request(f"{self._endpoint}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        return name

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(self._endpoint, timeout=30).close()
        except OSError:
            return False
        return True


@contextmanager
def running_s3() -> Iterator[S3Server]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = S3Server(port)
        if not wait_until(server.answers, 60):
            raise ZkbrokerError("moto's server does not answer")
        yield server
    finally:
        process.terminate()
        process.wait(90)
