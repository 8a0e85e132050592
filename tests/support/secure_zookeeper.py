"""A real ZooKeeper with users (SASL DIGEST-MD5), and one more port for TLS where asked for."""

from collections.abc import Mapping
from pathlib import Path

from zkbroker.zookeeper.embedded import EmbeddedZooKeeper, free_port

NETTY = tuple(
    f"netty-{part}-4"
    for part in (
        *("common", "buffer", "handler", "transport", "resolver", "codec", "codec-base"),
        *("transport-native-unix-common", "transport-classes-epoll"),
    )
)
"""The server's classes for SASL and TLS need them."""
LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


class SecureZooKeeper(EmbeddedZooKeeper):
    """A ZooKeeper that knows users.

    Args:
        data_dir: its files; the JAAS file and the stores stand there, too.
        users: user → password.
        login_required: whether it closes the session of a client without a login.
        keystore: PKCS#12 file with its key, for a port with TLS.
        truststore: PKCS#12 file with the authorities of its clients; they need certificates then.
        store_password: of both files.
    """

    def __init__(
        self,
        data_dir: Path,
        users: Mapping[str, str],
        *,
        login_required: bool = False,
        keystore: Path | None = None,
        truststore: Path | None = None,
        store_password: str = "",
    ) -> None:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.jaas = data_dir / "server-jaas.conf"
        self.set_users(users)
        lines = ["authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"]
        if login_required:
            lines.append("sessionRequireClientSASLAuth=true")
        self.tls_port = 0
        if keystore is not None:
            self.tls_port = free_port()
            lines += [
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                f"secureClientPort={self.tls_port}",
                "secureClientPortAddress=127.0.0.1",
                "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
                f"ssl.keyStore.location={keystore}",
                f"ssl.keyStore.password={store_password}",
                f"ssl.trustStore.location={truststore or keystore}",
                f"ssl.trustStore.password={store_password}",
                f"ssl.clientAuth={'need' if truststore else 'none'}",
                "ssl.hostnameVerification=false",
            ]
        super().__init__(
            data_dir,
            java_options=(f"-Djava.security.auth.login.config={self.jaas}",),
            lines=tuple(lines),
            jars=NETTY,
        )

    def set_users(self, users: Mapping[str, str]) -> None:
        """Write the users; a restart makes them count."""
        listed = "".join(f"\n  user_{user}={_quoted(password)}" for user, password in users.items())
        self.jaas.write_text(f"Server {{\n  {LOGIN_MODULE} required{listed};\n}};\n")

    @property
    def tls_connect_string(self) -> str:
        return f"localhost:{self.tls_port}"


def jaas_line(user: str, password: str) -> str:
    """The login of a client."""
    return f"{LOGIN_MODULE} required username={_quoted(user)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
