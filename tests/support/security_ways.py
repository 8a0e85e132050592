"""The ways to connect to a cluster in the security matrix, as settings of each client.

A way is a listener and the settings of a client for it. `WAYS` is the table; a way is added by a
line there, with the settings of its listener in `PROPERTIES` where it needs some.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.certificates import Authority


@dataclass(frozen=True)
class Way:
    """One way to connect.

    Args:
        listener: its name.
        protocol: its security protocol.
        certificate: whether clients show a certificate.
    """

    listener: str
    protocol: str
    certificate: bool = False

    @property
    def has_tls(self) -> bool:
        return self.protocol == "SSL"


WAYS = [
    Way("PLAINTEXT", "PLAINTEXT"),
    Way("SSL", "SSL"),
    Way("CERTIFIED", "SSL", certificate=True),
]

PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CERTIFIED:SSL",
    "inter.broker.listener.name": "CERTIFIED",
    "listener.name.certified.ssl.client.auth": "required",
}


@dataclass
class Credentials:
    """The files of a cluster and of its clients."""

    directory: Path
    authority: Authority = field(default_factory=Authority)

    def __post_init__(self) -> None:
        self.broker = self.authority.issue("CN=broker,O=test", rsa_key=True).pem(self.directory)
        self.client = self.authority.issue("CN=alice,O=test", hosts=())
        self.client_pem = self.client.pem(self.directory)
        self.trusted = self.authority.trusted(self.directory)

    def broker_properties(self) -> dict[str, str]:
        """Properties of every broker: each way has its listener."""
        listeners = ",".join(f"{way.listener}://127.0.0.1:0" for way in WAYS)
        return {
            "listeners": listeners,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.broker,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            **PROPERTIES,
        }

    def java(self, way: Way) -> dict[str, str]:
        """Properties of Java's clients, and of ours."""
        found = {"security.protocol": way.protocol}
        if way.has_tls:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.trusted,
            }
        if way.certificate:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.client_pem}
        return found

    def java_file(self, way: Way) -> str:
        """A property file of these."""
        path = self.directory / f"{way.listener.lower()}.properties"
        lines = [f"{key}={value}" for key, value in self.java(way).items()]
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def librdkafka(self, way: Way) -> dict[str, str]:
        """Properties of librdkafka."""
        found = {"security.protocol": way.protocol}
        if way.has_tls:
            found["ssl.ca.location"] = self.trusted
        if way.certificate:
            found |= {
                "ssl.certificate.location": self.client_pem,
                "ssl.key.location": self.client_pem,
            }
        return found

    def python(self, way: Way) -> dict[str, Any]:
        """Arguments of kafka-python and aiokafka."""
        found: dict[str, Any] = {"security_protocol": way.protocol}
        if way.has_tls:
            found["ssl_cafile"] = self.trusted
        if way.certificate:
            found |= {"ssl_certfile": self.client_pem, "ssl_keyfile": self.client_pem}
        return found

    def node(self, way: Way) -> dict[str, Any]:
        """Settings of kafkajs."""
        found: dict[str, Any] = {}
        if way.has_tls:
            found["ssl"] = {"ca": [self.authority.chain_pem()]}
        if way.certificate:
            found["ssl"] |= {"key": self.client.key_pem(), "cert": self.client.chain_pem()}
        return found

    def job(
        self, library: str, way: Way, bootstrap: str, topic: str, values: list[str]
    ) -> dict[str, Any]:
        """A job of `tests/interop/clients/matrix_client.py` or `node/matrix.js`."""
        settings: dict[str, Any] = self.python(way)
        if library == "confluent":
            settings = self.librdkafka(way)
        elif library == "kafkajs":
            settings = self.node(way)
        return {
            "library": library,
            "bootstrap": bootstrap,
            "topic": topic,
            "values": values,
            "settings": settings,
        }
