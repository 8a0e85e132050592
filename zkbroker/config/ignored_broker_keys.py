"""Broker keys of genuine Kafka that have no effect here, each with its reason.

Invariant: together with the options of `BrokerConfig` and of the log, these cover every key that a
genuine broker from 0.7.2 to 2.x reads. A key whose loss could surprise (security above all) says
what the consequence is.
"""

from collections.abc import Mapping

_ONE_LOOP = "requests are handled by one event loop; there are no thread counts to set"
_REPLICATION = "each partition has one replica; there is no replication between brokers"
_CONTROLLER = "the controller acts through ZooKeeper and opens no connections to brokers"
_METRICS = "metrics are served in Prometheus form on admin.port"
_PURGATORY = "delayed requests are dropped as they are answered; nothing is purged"
_QUOTAS = "quotas are not enforced"
_TRANSACTIONS = "transactions are not served; producers may be idempotent"
_TLS = "connections are PLAINTEXT; put a TLS proxy in front where that is needed"
_SASL = "clients are not authenticated; restrict access to the network instead"
_ACLS = "access control lists are not enforced; restrict access to the network instead"
_CLEANER = "logs are not compacted"

IGNORED: Mapping[str, str] = {
    "alter.config.policy.class.name": "policies are Java classes",
    "auto.leader.rebalance.enable": _REPLICATION,
    "background.threads": _ONE_LOOP,
    "allow.everyone.if.no.acl.found": _ACLS,
    "authorizer.class.name": _ACLS,
    "connection.failed.authentication.delay.ms": _SASL,
    "control.plane.listener.name": "the controller opens no connections to brokers",
    "controlled.shutdown.enable": "a stopping broker always leaves in order",
    "controlled.shutdown.max.retries": "a stopping broker always leaves in order",
    "controlled.shutdown.retry.backoff.ms": "a stopping broker always leaves in order",
    "controller.message.queue.size": _CONTROLLER,
    "controller.socket.timeout.ms": _CONTROLLER,
    "create.topic.policy.class.name": "policies are Java classes",
    "default.replication.factor": _REPLICATION,
    "enable.zookeeper": "a broker is always registered in ZooKeeper",
    "external.kafka.metrics.exclude.prefix": _METRICS,
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "inter.broker.listener.name": "brokers open no connections to each other",
    "inter.broker.protocol.version": "brokers open no connections to each other",
    "kafka.csv.metrics.dir": _METRICS,
    "kafka.csv.metrics.reporter.enabled": _METRICS,
    "kafka.metrics.polling.interval.secs": _METRICS,
    "kafka.metrics.reporters": _METRICS,
    "leader.imbalance.check.interval.seconds": _REPLICATION,
    "leader.imbalance.per.broker.percentage": _REPLICATION,
    "log.message.downconversion.enable": "old readers are always converted for",
    "max.incremental.fetch.session.cache.slots": "every fetch is a full one, without a session",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "monitoring.period.secs": _METRICS,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.replica.alter.log.dirs.threads": _REPLICATION,
    "num.replica.fetchers": _REPLICATION,
    "num.threads": _ONE_LOOP,
    "offsets.commit.required.acks": _REPLICATION,
    "offsets.load.buffer.size": "offsets are loaded segment by segment",
    "offsets.topic.replication.factor": _REPLICATION,
    "principal.builder.class": _SASL,
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "delete.records.purgatory.purge.interval.requests": _PURGATORY,
    "replication.quota.window.num": _QUOTAS,
    "replication.quota.window.size.seconds": _QUOTAS,
    "alter.log.dirs.replication.quota.window.num": _QUOTAS,
    "alter.log.dirs.replication.quota.window.size.seconds": _QUOTAS,
    "request.timeout.ms": "brokers open no connections to each other",
    "security.inter.broker.protocol": "brokers open no connections to each other",
    "super.users": _ACLS,
    "unclean.leader.election.enable": _REPLICATION,
    "zk.synctime.ms": "nothing waits for a lagging ZooKeeper follower",
    "zookeeper.max.in.flight.requests": "the ZooKeeper client bounds its requests itself",
    "zookeeper.set.acl": _ACLS,
    "zookeeper.sync.time.ms": "nothing waits for a lagging ZooKeeper follower",
}

IGNORED_PREFIXES: Mapping[str, str] = {
    "ssl.": _TLS,
    "listener.name.": _TLS,
    "sasl.": _SASL,
    "delegation.token.": _SASL,
    "password.encoder.": _TLS,
    "log.cleaner.": _CLEANER,
    "quota.": _QUOTAS,
    "replica.": _REPLICATION,
    "transaction.": _TRANSACTIONS,
    "confluent.": "an option of a vendor's edition",
}
