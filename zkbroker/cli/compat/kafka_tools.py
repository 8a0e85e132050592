"""The genuine tools under their own names and options, for existing scripts.

    zkbroker kafka-console-consumer --zookeeper 127.0.0.1:2181 --topic visits --from-beginning
    zkbroker kafka.tools.ConsumerOffsetChecker --zookeeper 127.0.0.1:2181 --group counters

Invariant: a tool only translates its options into a command of ours, which does the work. An option
    without effect here is accepted, with a warning that names it.
"""

import click

from zkbroker.cli.compat import (
    acl_tools,
    broker_tools,
    cluster_tools,
    config_tool,
    message_tools,
    mirror_tools,
    offset_tools,
    server_tools,
)
from zkbroker.cli.compat.kafka_tool import Tool

TOOLS: dict[str, Tool] = {
    **message_tools.TOOLS,
    **cluster_tools.TOOLS,
    **broker_tools.TOOLS,
    **config_tool.TOOLS,
    **offset_tools.TOOLS,
    **mirror_tools.TOOLS,
    **acl_tools.TOOLS,
    **server_tools.TOOLS,
}

CLASSES = {
    "kafka.Kafka": "kafka-server-start",
    "kafka.tools.MirrorMaker": "kafka-mirror-maker",
    "kafka.tools.KafkaMigrationTool": "kafka-migration-tool",
    "kafka.tools.ConsoleConsumer": "kafka-console-consumer",
    "kafka.tools.ConsoleProducer": "kafka-console-producer",
    "kafka.admin.AclCommand": "kafka-acls",
    "kafka.admin.TopicCommand": "kafka-topics",
    "kafka.admin.ConfigCommand": "kafka-configs",
    "kafka.admin.ReassignPartitionsCommand": "kafka-reassign-partitions",
    "kafka.admin.PreferredReplicaLeaderElectionCommand": "kafka-preferred-replica-election",
    "kafka.admin.ConsumerGroupCommand": "kafka-consumer-groups",
    "kafka.tools.ConsumerOffsetChecker": "kafka-consumer-offset-checker",
    "kafka.admin.LeaderElectionCommand": "kafka-leader-election",
    "kafka.admin.DeleteRecordsCommand": "kafka-delete-records",
    "kafka.admin.LogDirsCommand": "kafka-log-dirs",
    "kafka.admin.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "kafka.tools.ExportZkOffsets": "kafka-export-zk-offsets",
    "kafka.tools.ImportZkOffsets": "kafka-import-zk-offsets",
    "kafka.tools.UpdateOffsetsInZK": "kafka-update-offsets-in-zk",
    "kafka.tools.DumpLogSegments": "kafka-dump-log",
    "kafka.tools.SimpleConsumerShell": "kafka-simple-consumer-shell",
    "kafka.tools.VerifyConsumerRebalance": "kafka-verify-consumer-rebalance",
    "kafka.tools.ReplayLogProducer": "kafka-replay-log-producer",
    "kafka.tools.ProducerPerformance": "kafka-producer-perf-test",
    "kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
}


NAMES = (*TOOLS, *CLASSES)
"""All names that `find` accepts."""


def find(name: str) -> click.Command | None:
    """Return the tool of a script's name (with or without `.sh`) or of a class."""
    known = CLASSES.get(name, name.removesuffix(".sh"))
    tool = TOOLS.get(known)
    return None if tool is None else tool.command(known)
