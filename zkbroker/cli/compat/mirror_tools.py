"""The genuine tools that copy topics between clusters.

Invariant: that of `kafka_tools`.
"""

import click

from zkbroker.cli.compat.kafka_tool import Tool
from zkbroker.cli.compat.tool_options import Given, required


def _mirror_maker(given: Given) -> list[str]:
    from zkbroker.config import load_properties

    if ("whitelist" in given) == ("blacklist" in given):
        raise click.UsageError("give exactly one of --whitelist and --blacklist")
    required(given, "consumer.config")
    required(given, "producer.config")
    for path in given["consumer.config"] if "new.consumer" in given else ():
        if "bootstrap.servers" not in load_properties(path):
            raise click.UsageError(f"--new.consumer needs bootstrap.servers in {path}")
    shown = ["mirror"]
    for name, values in given.items():
        if name in ("consumer.config", "producer.config", "whitelist", "blacklist"):
            shown += [part for value in values for part in (f"--{name}", value)]
        elif name not in ("new.consumer", "new.producer", "num.producers", "queue.size"):
            shown += ["-X", f"{name}={values[-1]}"]
    return shown


TOOLS = {
    "kafka-mirror-maker": Tool(
        "Copy topics of other clusters into one.",
        _mirror_maker,
        example="--consumer.config east.properties --producer.config here.properties "
        "--whitelist visits",
        values=(
            "consumer.config", "producer.config", "num.streams", "whitelist", "blacklist",
            "message.handler", "message.handler.args", "abort.on.send.failure",
            "offset.commit.interval.ms", "rebalance.listener", "rebalance.listener.args",
            "consumer.rebalance.listener",
        ),
        flags=("new.consumer", "new.producer"),
        ignored=("num.producers", "queue.size", "new.producer"),
    ),
    "kafka-migration-tool": Tool(
        "Copy topics of clusters of Kafka 0.7 into a newer one.",
        lambda given: [*_mirror_maker(given), "--from-07"],
        example="--consumer.config old.properties --producer.config here.properties "
        "--whitelist visits",
        values=("consumer.config", "producer.config", "num.streams", "whitelist", "blacklist"),
        ignored=("kafka.07.jar", "zkclient.01.jar", "num.producers", "queue.size"),
    ),
}  # fmt: skip
