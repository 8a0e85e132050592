"""Records there and back by clients of any library, with a login or TLS.

round_trips(library, [Secured(bootstrap, topic, "SASL_PLAINTEXT", mechanism="PLAIN", ...)])
"""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.jobs import CLIENTS, LEGACY
from tests.support import java_clients, node_clients
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.producer import KeyedMessage, Producer

LIBRARIES = (
    "confluent",
    "kafka-python",
    "kafka-python-2.0.2",
    "aiokafka",
    "kcat",
    "kafkajs",
    "java",
    "zkbroker",
)
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}


@dataclass(frozen=True, kw_only=True)
class Secured:
    """The job of a client, and its settings.

    Args:
        bootstrap: `host:port`.
        topic: one that exists.
        protocol: its security protocol.
        mechanism: of the login; empty for none.
        token: for OAUTHBEARER, in place of user and password.
        ca: PEM file with the authority that signed the broker's certificate.
    """

    bootstrap: str
    topic: str
    protocol: str
    mechanism: str = ""
    user: str = "alice"
    password: str = ""
    token: str = ""
    ca: str = ""
    group: str = field(default_factory=lambda: f"g-{uuid.uuid4().hex}")
    value: str = field(default_factory=lambda: uuid.uuid4().hex)


def round_trips(library: str, jobs: Sequence[Secured]) -> None:
    """Write a record and read it in a group, for each job.

    Raises:
        AssertionError: that failed; with what the client said.
    """
    by_one = {"kcat": _kcat, "java": _java, "zkbroker": _own}.get(library)
    found = [by_one(job) for job in jobs] if by_one else _process(library, jobs)
    for job, read in zip(jobs, found, strict=True):
        assert job.value in read, (job.protocol, job.mechanism, read)


def _process(library: str, jobs: Sequence[Secured]) -> list[list[str]]:
    """Run all jobs in one process of the library."""
    environment = dict(os.environ)
    command = [sys.executable, str(CLIENTS / "secured_client.py"), library]
    if library == "kafka-python-2.0.2":
        environment["PYTHONPATH"] = str(LEGACY)
    if library == "kafkajs":
        command, environment = node_clients.command("secured.js"), node_clients.environment()
    done = subprocess.run(
        command,
        input=json.dumps([asdict(job) for job in jobs]),
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results: list[dict[str, Any]] = json.loads(done.stdout)
    for job, result in zip(jobs, results, strict=True):
        assert "error" not in result, (job.protocol, job.mechanism, result["error"])
    return [result["read"] for result in results]


def _kcat(job: Secured) -> list[str]:
    settings = {"security.protocol": job.protocol, "ssl.ca.location": job.ca}
    if job.mechanism:
        settings["sasl.mechanisms"] = job.mechanism
    if job.token:
        # Its own unsecured tokens: it takes none of ours on the command line.
        settings |= {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={job.user}",
        }
    elif job.mechanism:
        settings |= {"sasl.username": job.user, "sasl.password": job.password}
    common = ["kcat", "-b", job.bootstrap]
    for key, value in settings.items():
        if value:
            common += ["-X", f"{key}={value}"]
    written = subprocess.run(
        [*common, "-P", "-t", job.topic, "-X", "message.timeout.ms=60000"],
        input=job.value,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert written.returncode == 0, written.stderr[-2000:]
    read = subprocess.run(
        [*common, "-C", "-q", "-e", "-o", "beginning", "-t", job.topic],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert read.returncode == 0, read.stderr[-2000:]
    return read.stdout.splitlines()


def java_settings(job: Secured) -> dict[str, str]:
    """The properties of a Java client, and of our own ones."""
    settings = {"bootstrap.servers": job.bootstrap, "security.protocol": job.protocol}
    if job.ca:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": job.ca}
    if job.mechanism:
        options = f'username="{job.user}" password="{job.password}"'
        if job.token:
            options = f'unsecuredLoginStringClaim_sub="{job.user}"'
        module = f"org.apache.kafka.common.security.{MODULES[job.mechanism]}"
        settings["sasl.mechanism"] = job.mechanism
        settings["sasl.jaas.config"] = f"{module} required {options};"
    return settings


def _java(job: Secured) -> list[str]:
    version = java_clients.versions()[-1]
    text = "".join(f"{key}={value}\n" for key, value in java_settings(job).items())
    arguments = (job.topic, job.group, job.value)
    command = java_clients.command("SecuredRoundTrip", version, *arguments)
    path = command.index("-cp") + 1
    command[path] = os.pathsep.join((command[path], *_jackson()))
    lines = [line.split("\t", 1) for line in java_clients.run(command, text=text).splitlines()]
    errors = [line[1] for line in lines if line[0] == "error"]
    assert not errors, errors
    return [line[1] for line in lines if line[0] == "read"]


def _own(job: Secured) -> list[str]:
    settings = java_settings(job)
    servers = settings.pop("bootstrap.servers")
    own = ProducerConfig.from_properties(
        {"metadata.broker.list": servers, "request.required.acks": "-1", **settings}
    )
    with Producer(own) as producer:
        producer.send(KeyedMessage(job.topic, job.value.encode()))
    reading = GroupConsumerConfig.from_properties(
        {
            "bootstrap.servers": servers,
            "group.id": job.group,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    read: list[str] = []
    until = time.monotonic() + 120
    with GroupConsumer(reading) as consumer:
        consumer.subscribe([job.topic])
        while job.value not in read and time.monotonic() < until:
            read += [each.value.decode() for each in consumer.poll(1.0) if each.value is not None]
    return read


def _jackson() -> list[str]:
    """The jars that the Java client's unsecured tokens need; pyspark has them."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    kinds = ("annotations", "core", "databind")
    return [str(next(jars.glob(f"jackson-{kind}-[0-9]*.jar"))) for kind in kinds]


def missing(library: str) -> str | None:
    """Why a library's clients cannot be run here; None when they can."""
    from tests.interop import jobs

    if library == "zkbroker":
        return None
    if library == "java":
        return None if java_clients.versions() else java_clients.REASON
    return jobs.missing(library)
