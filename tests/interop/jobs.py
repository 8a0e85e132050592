"""Third-party clients as processes that run jobs: write these records, read those topics.

A job is a dict; a client process takes a list of jobs as JSON on its standard input and prints a
list of results. Keys, values and header values are hexadecimal, so that any bytes pass.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import node_clients

CLIENTS = Path(__file__).parent / "clients"
LEGACY = Path(sys.executable).parent.parent / "kafka-python-2.0.2"

ALL = ("none", "gzip", "snappy", "lz4", "zstd")
BEFORE_ZSTD = tuple(name for name in ALL if name != "zstd")

Record = dict[str, Any]


@dataclass(frozen=True)
class Client:
    """One client in one configuration.

    Args:
        name: unique.
        library: `kafka-python-2.0.2`, `kafka-python`, `confluent`, `aiokafka`, `kcat`, `kafkajs`
            or `kafka-node`.
        version: forced level of the broker, in the library's own form; None lets it find out.
        codecs: what it can write.
        headers: whether it writes headers at this level, and reads them.
        timestamps: whether it writes and reads timestamps at this level.
        reads: what it can read at this level.
        more: settings of its producer beyond those.
        tombstones: whether it can write null values.
        reads_headers: whether it reads headers though it writes none.
        reads_old_lz4: whether it reads lz4 in messages of magic 0, whose frames have a checksum of
            their own.
    """

    name: str
    library: str
    version: Any
    codecs: tuple[str, ...]
    headers: bool
    timestamps: bool
    reads: tuple[str, ...] = BEFORE_ZSTD
    more: dict[str, Any] = field(default_factory=dict, hash=False)
    tombstones: bool = True
    reads_headers: bool = False
    reads_old_lz4: bool = True

    def can_read(self, writer: "Client", codec: str) -> bool:
        """Whether it reads what a client wrote with a codec."""
        return codec in self.reads and (self.reads_old_lz4 or codec != "lz4" or writer.timestamps)


def legacy(*version: int) -> Client:
    codecs = ["none", "gzip", "snappy"]
    if version >= (0, 8, 2):
        codecs.append("lz4")
    if version >= (2, 1):
        codecs.append("zstd")
    return Client(
        "kafka-python-2.0.2-as-" + ".".join(map(str, version)),
        "kafka-python-2.0.2",
        list(version),
        tuple(codecs),
        headers=version >= (0, 11),
        timestamps=version >= (0, 10),
        tombstones=version >= (0, 8, 1),
    )


KAFKA_PYTHON_LEVELS = (
    (0, 8, 0),
    (0, 8, 1),
    (0, 8, 2),
    (0, 9),
    (0, 10),
    (0, 10, 1),
    (0, 10, 2),
    (0, 11, 0),
    (1, 0, 0),
    (1, 1, 0),
    (2, 0, 0),
    (2, 1, 0),
    (2, 5, 0),
)

LIBRARIES = {
    "legacy": [
        *(legacy(*level) for level in KAFKA_PYTHON_LEVELS),
        Client("kafka-python-2.0.2-auto", "kafka-python-2.0.2", None, ALL, True, True),
    ],
    "newest": [Client("kafka-python-newest", "kafka-python", None, ALL, True, True, reads=ALL)],
    "confluent": [
        Client("librdkafka-as-0.8.2.1", "confluent", "0.8.2.1", BEFORE_ZSTD, False, False),
        Client("librdkafka-as-0.9.0", "confluent", "0.9.0", BEFORE_ZSTD, False, False),
        Client(
            "librdkafka-as-0.10.0",
            "confluent",
            "0.10.0",
            BEFORE_ZSTD,
            False,
            True,
            # It asks a 0.10.0 broker for batches of magic 2 all the same.
            reads_headers=True,
        ),
        Client("librdkafka-auto", "confluent", None, ALL, True, True, reads=ALL),
        Client(
            "librdkafka-idempotent",
            "confluent",
            None,
            ALL,
            True,
            True,
            reads=ALL,
            more={"enable.idempotence": True},
        ),
    ],
    "aiokafka": [
        Client("aiokafka", "aiokafka", None, ALL, True, True, reads=ALL, reads_old_lz4=False),
        Client(
            "aiokafka-idempotent",
            "aiokafka",
            None,
            ALL,
            True,
            True,
            reads=ALL,
            more={"enable_idempotence": True},
            reads_old_lz4=False,
        ),
    ],
    "kcat": [Client("kcat", "kcat", None, ALL, True, False, reads=ALL)],
    # Of the packages with codecs for them, those are installed that need no compiler.
    "kafkajs": [Client("kafkajs", "kafkajs", None, ALL[:3], True, True, reads=ALL[:3])],
    "kafka-node": [Client("kafka-node", "kafka-node", None, ALL[:2], False, True, reads=ALL[:2])],
}
SCRIPTS = {"confluent": "confluent_client.py", "aiokafka": "aiokafka_client.py"}
EVERY = [client for clients in LIBRARIES.values() for client in clients]


def missing(library: str) -> str | None:
    """Why a library's clients cannot be run here; None when they can."""
    if library == "kcat" and shutil.which("kcat") is None:
        return "kcat is not installed (apt-get install kcat)"
    if library == "kafka-python-2.0.2" and not LEGACY.exists():
        return f"kafka-python 2.0.2 is not at {LEGACY}"
    if library in {"kafkajs", "kafka-node"}:
        return node_clients.missing()
    return None


def run(library: str, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run jobs in one process of a library.

    Raises:
        AssertionError: the process failed; with what it wrote to standard error.
    """
    if library == "kcat":
        from tests.interop.clients import kcat_client

        return [kcat_client.run(job) for job in jobs]
    script = SCRIPTS.get(library, "kafka_python_client.py")
    command = [sys.executable, str(CLIENTS / script)]
    environment = dict(os.environ)
    if library in {"kafkajs", "kafka-node"}:
        command = [*node_clients.command("jobs.js"), library]
        environment = node_clients.environment()
    if library == "kafka-python-2.0.2":
        environment["PYTHONPATH"] = str(LEGACY)
    done = subprocess.run(
        command,
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results
