"""A running cluster moves from PLAINTEXT to SASL_SSL with ACLs by restarts, and loses nothing.

The steps are those of recipe 4 of docs/security.md.
"""

import threading

from tests.support.brokers import MortalBroker
from tests.support.certificates import Authority
from tests.support.zookeeper import until
from zkbroker.admin.topics import create_topic
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.errors import ZkbrokerError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.partitions import partition_state
from zkbroker.registry.scram_users import write_credentials
from zkbroker.security.sasl.scram import HASHES, make_credential
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import free_port

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LINE = f'{SCRAM} required username="broker" password="broker-secret";'
TOPIC = "visits"
BROKERS = (1, 2)


class Cluster:
    """Two brokers that are restarted one by one with other settings."""

    def __init__(self, directory, zookeeper, authority):
        self.directory, self.zookeeper = directory, zookeeper
        self.ports = {broker: (free_port(), free_port()) for broker in BROKERS}
        self.key = authority.issue("broker", hosts=("localhost", "127.0.0.1")).pem(directory)
        self.trusted = authority.trusted(directory)
        self.running = {}

    def properties(self, broker, *, plain=True, secure=True, inter="PLAINTEXT", acls=False):
        plain_port, secure_port = self.ports[broker]
        listeners = [f"PLAINTEXT://127.0.0.1:{plain_port}"] if plain else []
        given = {
            "broker.id": str(broker),
            "zookeeper.connect": self.zookeeper,
            "inter.broker.listener.name": inter,
            "controlled.shutdown.enable": "true",
            "replica.lag.time.max.ms": "2000",
        }
        if secure:
            listeners.append(f"SASL_SSL://127.0.0.1:{secure_port}")
            given |= {
                "ssl.keystore.location": self.key,
                "ssl.truststore.location": self.trusted,
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": LINE,
            }
        if acls:
            given["authorizer.class.name"] = "kafka.security.auth.SimpleAclAuthorizer"
            given["super.users"] = "User:broker"
        return given | {"listeners": ",".join(listeners)}

    def roll(self, session, **settings):
        """Restart each broker with other settings, once the one before is in sync again."""
        for broker in BROKERS:
            if broker in self.running:
                until(lambda: self.in_sync(session))
                self.running[broker].stop()
            process = MortalBroker(self.directory, self.properties(broker, **settings))
            process.start()
            self.running[broker] = process
        if session is not None:
            until(lambda: self.in_sync(session))

    def in_sync(self, session):
        states = [partition_state(session, TOPIC, number) for number in range(2)]
        return all(state is not None and len(state.isr) == 2 for state in states)

    def client(self, secure):
        addresses = ",".join(f"127.0.0.1:{ports[secure]}" for ports in self.ports.values())
        if not secure:
            return {"bootstrap.servers": addresses}
        return {
            "bootstrap.servers": addresses,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self.trusted,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "broker",
            "sasl.password": "broker-secret",
        }

    def stop(self):
        for process in self.running.values():
            process.stop()


class Sender:
    """Sends numbers, one after the other, until it is stopped; keeps the acknowledged ones."""

    def __init__(self, first, properties):
        config = ProducerConfig.from_properties(
            {**properties, "acks": "-1", "message.send.max.retries": "100"}
        )
        self.sent, self.failure = [], None
        self._first, self._config = first, config
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = self._first
        try:
            with Producer(self._config) as producer:
                while not self._stop.is_set():
                    producer.send(KeyedMessage(TOPIC, b"%d" % number, key=b"%d" % number))
                    self.sent.append(number)
                    number += 1
                    self._stop.wait(0.01)
        except ZkbrokerError as error:
            self.failure = error

    def stop(self):
        self._stop.set()
        self._thread.join(60)
        assert self.failure is None
        return self.sent


def test_migration_to_sasl_ssl_loses_no_message(tmp_path, chroot):
    with ZkSession(chroot) as session:
        cluster = Cluster(tmp_path, chroot, Authority())
        try:
            cluster.roll(None, secure=False)
            create_topic(session, TOPIC, partitions=2, replication_factor=2)
            until(lambda: cluster.in_sync(session))
            old = Sender(0, cluster.client(secure=False))
            credential = make_credential(HASHES["SCRAM-SHA-512"], "broker-secret")
            write_credentials(session, "broker", {"SCRAM-SHA-512": credential})
            cluster.roll(session)
            cluster.roll(session, inter="SASL_SSL")
            sent = old.stop()
            new = Sender(1_000_000, cluster.client(secure=True))
            cluster.roll(session, inter="SASL_SSL", acls=True)
            cluster.roll(session, inter="SASL_SSL", acls=True, plain=False)
            sent += new.stop()
            assert len(sent) > 100
            found = []
            reader = GroupConsumerConfig.from_properties(
                {**cluster.client(secure=True), "group.id": "g", "auto.offset.reset": "earliest"}
            )
            with GroupConsumer(reader) as consumer:
                consumer.subscribe([TOPIC])
                until(lambda: found.extend(_values(consumer)) or set(found) >= set(sent))
            assert set(sent) <= set(found)
        finally:
            cluster.stop()


def _values(consumer):
    return [int(message.value) for message in consumer.poll(0.2)]
