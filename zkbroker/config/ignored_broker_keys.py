"""Broker keys of genuine Kafka that have no effect here, each with its reason.

Invariant: together with the options of `BrokerConfig` and of the log, these cover every key that a
genuine broker from 0.7.2 to 2.x reads. A key whose loss could surprise (security above all) says
what the consequence is.
"""

from collections.abc import Mapping

_ONE_LOOP = "requests are handled by one event loop; there are no thread counts to set"
_METRICS = "metrics are served in Prometheus form on admin.port"
_PURGATORY = "delayed requests are dropped when they are answered; nothing is purged"
_MOVES = "replicas do not move between data directories"
_KERBEROS = "Kerberos is not supported: clients log in by SCRAM, OAUTHBEARER or PLAIN"
_JAVA = "Java classes are not run"

IGNORED: Mapping[str, str] = {
    "alter.config.policy.class.name": "policies are Java classes",
    "background.threads": _ONE_LOOP,
    "client.quota.callback.class": "callbacks are Java classes; quotas of users and clients work",
    "connections.max.reauth.ms": "clients log in again since Kafka 2.2, which is above the level "
    "served: a login holds as long as its connection",
    "log.cleaner.max.compaction.lag.ms": "the cleaner chooses by log.cleaner.min.cleanable.ratio",
    "control.plane.listener.name": "the controller uses inter.broker.listener.name",
    "create.topic.policy.class.name": "policies are Java classes",
    "enable.zookeeper": "a broker is always registered in ZooKeeper",
    "external.kafka.metrics.exclude.prefix": _METRICS,
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "kafka.csv.metrics.dir": _METRICS,
    "kafka.csv.metrics.reporter.enabled": _METRICS,
    "kafka.metrics.polling.interval.secs": _METRICS,
    "kafka.metrics.reporters": _METRICS,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "monitoring.period.secs": _METRICS,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.replica.alter.log.dirs.threads": _MOVES,
    "num.threads": _ONE_LOOP,
    "offsets.commit.required.acks": "offsets are stored with acks=-1, the genuine default",
    "offsets.load.buffer.size": "offsets are loaded segment by segment",
    "principal.builder.class": f"{_JAVA}: a principal is User: with the name of the login",
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "delete.records.purgatory.purge.interval.requests": _PURGATORY,
    "replica.lag.max.messages": "lag is judged by time alone, as since 0.9",
    "replica.selector.class": "consumers read from leaders",
    "alter.log.dirs.replication.quota.window.num": _MOVES,
    "alter.log.dirs.replication.quota.window.size.seconds": _MOVES,
    "request.timeout.ms": "replica.socket.timeout.ms and controller.socket.timeout.ms are used",
    "sasl.jaas.config": "users of a broker stand in "
    "listener.name.<listener>.<mechanism>.sasl.jaas.config",
    "transaction.state.log.load.buffer.size": "partitions are read in pieces of 128 KiB",
    "zk.synctime.ms": "nothing waits for a lagging ZooKeeper follower",
    "zookeeper.max.in.flight.requests": "the ZooKeeper client bounds its requests itself",
    "zookeeper.sync.time.ms": "nothing waits for a lagging ZooKeeper follower",
}

IGNORED_PREFIXES: Mapping[str, str] = {
    "sasl.kerberos.": _KERBEROS,
    "sasl.login.": "brokers log in again for each connection: no login is kept that could expire",
    "sasl.client.": _JAVA,
    "delegation.token.": "delegation tokens are not served: give programs users of their own",
    "password.encoder.": "passwords are not kept in ZooKeeper",
    "confluent.": "an option of a vendor's edition",
}
