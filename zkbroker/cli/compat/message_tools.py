"""The genuine tools that publish and print messages.

Invariant: that of `kafka_tools`.
"""

import click

from zkbroker.cli.compat.kafka_tool import Tool, Translation
from zkbroker.cli.compat.tool_options import (
    FIND,
    Given,
    command_config,
    discovery,
    exactly_one,
    one,
    pass_on,
    properties_of,
    required,
)
from zkbroker.config.generation import GENERATION

_FORMATTERS = {"DefaultMessageFormatter": [], "NoOpMessageFormatter": ["-f", ""]}
_STATS = ("show-detailed-stats", "hide-header")


def _generation(given: Given) -> list[str]:
    """Translate `--property kafka.generation=0.7` into our option."""
    named = properties_of(given).get(GENERATION)
    return [] if named is None else ["--kafka-generation", named]


def _client_settings(given: Given, file: str, single: str) -> list[str]:
    """Translate a client's property file and single properties into our options."""
    from zkbroker.config import load_properties

    path = one(given, file)
    settings = {} if path is None else load_properties(path)
    settings |= dict(text.partition("=")[::2] for text in given.get(single, []))
    return [part for pair in settings.items() for part in ("-X", "=".join(pair))]


def _formatter(given: Given) -> list[str]:
    """Translate a formatter's class into our options.

    Raises:
        click.UsageError: it has no counterpart here.
    """
    name = one(given, "formatter")
    if name is None:
        return []
    simple = name.removeprefix("kafka.tools.").removeprefix("kafka.consumer.ConsoleConsumer$")
    if simple in _FORMATTERS:
        return _FORMATTERS[simple]
    if "OffsetsMessageFormatter" in name or "GroupMetadataMessageFormatter" in name:
        instead = "zkbroker dump-log --offsets-decoder prints the records of __consumer_offsets"
    else:
        instead = "print messages with zkbroker consume -f FORMAT, or -J for JSON"
    raise click.UsageError(
        f"--formatter {name} is not here, only {' and '.join(_FORMATTERS)}: {instead}"
    )


def _console_consumer(given: Given) -> list[str]:
    import uuid

    named_by = exactly_one(
        given,
        ("topic", "whitelist", "blacklist"),
        "give exactly one of --topic, --whitelist and --blacklist",
    )
    properties = properties_of(given)
    shown = ["consume", *discovery(given), *_generation(given)]
    shown += pass_on(given, {"max-messages": "-c"})
    settings = _client_settings(given, "consumer.config", "consumer-property")
    end = properties.get("line.separator", "\\n")
    if properties.get("print.key", "false").lower() == "true":
        shown += ["-K", properties.get("key.separator", "\\t")]
    shown += ["-D", end, "-Z", *_formatter(given)]
    shown += pass_on(given, ["skip-message-on-error"])
    if "partition" in given or "zookeeper" not in given:
        for name in ("blacklist", "delete-consumer-offsets"):
            if name in given:
                raise click.UsageError(
                    f"--{name} is for groups that are kept in ZooKeeper: give --zookeeper, and no "
                    "--partition"
                )
        where = one(given, "offset") or ("beginning" if "from-beginning" in given else "end")
        where = {"earliest": "beginning", "latest": "end"}.get(where, where)
        shown += ["-t", required(given, "topic"), "-o", where]
        shown += [*pass_on(given, {"partition": "-p"}), *settings]
    else:
        groups = [
            text.split("=", 1)[1] for text in settings if text.startswith(("group.id=", "groupid="))
        ]
        group = groups[-1] if groups else f"console-consumer-{uuid.uuid4().int % 100_000}"
        reset = "smallest" if "from-beginning" in given else "largest"
        shown += ["-G", group, *settings, "-X", f"auto.offset.reset={reset}"]
        if named_by == "blacklist":
            shown.append("--blacklist")
        shown += [*pass_on(given, ["delete-consumer-offsets"]), required(given, named_by)]
    if "timeout-ms" in given:
        shown += ["-X", f"consumer.timeout.ms={required(given, 'timeout-ms')}"]
    return shown


def _console_producer(given: Given) -> list[str]:
    properties = properties_of(given)
    shown = ["produce", *discovery(given), *_generation(given)]
    shown += ["-t", required(given, "topic")]
    shown += _client_settings(given, "producer.config", "producer-property")
    if "compression-codec" in given:
        shown += ["--codec", one(given, "compression-codec") or "gzip"]
    if properties.get("parse.key", "false").lower() == "true":
        shown += ["-K", properties.get("key.separator", "\\t")]
    for name, key in {
        "batch-size": "batch.num.messages",
        "message-send-max-retries": "message.send.max.retries",
        "retry-backoff-ms": "retry.backoff.ms",
        "timeout": "queue.buffering.max.ms",
        "queue-size": "queue.buffering.max.messages",
        "request-required-acks": "request.required.acks",
        "request-timeout-ms": "request.timeout.ms",
    }.items():
        if name in given:
            shown += ["-X", f"{key}={required(given, name)}"]
    return shown


def _simple_shell(given: Given) -> list[str]:
    where = {"-2": "beginning", "-1": "end"}.get(one(given, "offset") or "-2")
    shown = ["consume", *discovery(given), "-t", required(given, "topic")]
    shown += ["-p", one(given, "partition") or "0", "-o", where or required(given, "offset")]
    formatter = _formatter(given)
    if "print-offsets" in given:
        value = "" if formatter else "%s\\n"
        formatter = ["-f", f"next offset = %o\\n{value}"]
    shown += formatter
    return shown + pass_on(given, {"max-messages": "-c", "no-wait-at-logend": "-e"})


def _replay(given: Given) -> list[str]:
    shown = ["replay", "--from", required(given, "inputtopic")]
    shown += ["--to", required(given, "outputtopic"), *discovery(given)]
    shown += pass_on(given, ("messages", "sync"))
    return shown + [part for text in given.get("property", []) for part in ("-X", text)]


def _performance(kind: str) -> Translation:
    def translate(given: Given) -> list[str]:
        topic = one(given, "topic") or required(given, "topics")
        names = (
            "messages", "message-size", "batch-size", "threads", "sync", "fetch-size",
            "reporting-interval", *_STATS,
        )  # fmt: skip
        shown = ["perf", kind, *discovery(given), "-t", topic, *pass_on(given, names)]
        shown += pass_on(given, {"request-num-acks": "--acks"})
        if kind == "produce":
            return shown + _client_settings(given, "producer.config", "producer-props")
        return shown + command_config(given, "consumer.config")

    return translate


TOOLS = {
    "kafka-console-consumer": Tool(
        "Print messages of a topic.",
        _console_consumer,
        example="--zookeeper 127.0.0.1:2181 --topic visits --from-beginning",
        values=(
            *FIND, "topic", "whitelist", "blacklist", "consumer.config", "consumer-property",
            "property", "max-messages", "partition", "offset", "timeout-ms", "formatter",
        ),
        flags=("from-beginning", "skip-message-on-error", "delete-consumer-offsets"),
        ignored=("key-deserializer", "value-deserializer", "metrics-dir"),
    ),
    "kafka-console-producer": Tool(
        "Publish lines of standard input.",
        _console_producer,
        example="--broker-list 127.0.0.1:9092 --topic visits < lines",
        values=(
            *FIND, "topic", "batch-size", "message-send-max-retries", "retry-backoff-ms",
            "timeout", "queue-size", "request-required-acks", "request-timeout-ms", "property",
            "producer.config", "producer-property",
        ),
        flags=("sync",),
        optional=("compression-codec",),
        ignored=(
            "line-reader", "key-serializer", "value-serializer", "socket-buffer-size", "sync",
        ),
    ),
    "kafka-simple-consumer-shell": Tool(
        "Print messages of one partition.",
        _simple_shell,
        example="--broker-list 127.0.0.1:9092 --topic visits --partition 0",
        values=("broker-list", "topic", "partition", "offset", "max-messages", "formatter"),
        flags=("no-wait-at-logend", "print-offsets"),
        ignored=("replica", "fetchsize", "clientId", "property", "max-wait-ms"),
    ),
    "kafka-replay-log-producer": Tool(
        "Copy the messages of a topic into another one.",
        _replay,
        example="--broker-list 127.0.0.1:9092 --zookeeper 127.0.0.1:2181 "
        "--inputtopic visits --outputtopic again",
        values=("zookeeper", "broker-list", "inputtopic", "outputtopic", "messages", "property"),
        flags=("sync",),
        ignored=("threads", "reporting-interval"),
    ),
    "kafka-producer-perf-test": Tool(
        "Measure publishing.",
        _performance("produce"),
        example="--broker-list 127.0.0.1:9092 --topic perf --messages 100000",
        values=(
            *FIND, "topic", "topics", "messages", "message-size", "batch-size", "threads",
            "reporting-interval", "request-num-acks", "producer.config", "producer-props",
        ),
        flags=("sync", *_STATS),
        ignored=("compression-codec", "request-timeout-ms", "date-format"),
    ),
    "kafka-consumer-perf-test": Tool(
        "Measure reading.",
        _performance("consume"),
        example="--zookeeper 127.0.0.1:2181 --topic perf",
        values=(
            *FIND, "topic", "messages", "fetch-size", "reporting-interval", "consumer.config",
        ),
        flags=_STATS,
        ignored=("group", "threads", "socket-buffer-size", "num-fetch-threads", "date-format"),
    ),
}  # fmt: skip
