"""The genuine tools under their own names and options, for scripts that exist.

    zkbroker kafka-console-consumer --zookeeper 127.0.0.1:2181 --topic visits --from-beginning
    zkbroker kafka.tools.ConsumerOffsetChecker --zookeeper 127.0.0.1:2181 --group counters

Invariant: each tool only translates its options into a command of ours; what the two have in
common is written once, there. An option that has no effect here is taken and named in a warning.
"""

import click

from zkbroker.cli.compat.kafka_tool import Tool, Translation
from zkbroker.config.generation import GENERATION


def _one(given: dict[str, list[str]], name: str) -> str | None:
    values = given.get(name)
    return values[-1] if values else None


def _required(given: dict[str, list[str]], name: str) -> str:
    value = _one(given, name)
    if value is None:
        raise click.UsageError(f"--{name} is required")
    return value


def _pass(given: dict[str, list[str]], names: dict[str, str]) -> list[str]:
    """Pass options on under another name; those without a value as flags."""
    arguments: list[str] = []
    for name, ours in names.items():
        if name in given:
            values = given[name]
            arguments += [part for value in values for part in (ours, value)] or [ours]
    return arguments


def _properties(given: dict[str, list[str]]) -> dict[str, str]:
    return dict(text.partition("=")[::2] for text in given.get("property", []))


def _generation(given: dict[str, list[str]]) -> list[str]:
    """Say `--property kafka.generation=0.7` in an option of ours."""
    named = _properties(given).get(GENERATION)
    return [] if named is None else ["--kafka-generation", named]


def _file_settings(path: str | None) -> list[str]:
    if path is None:
        return []
    from zkbroker.config import load_properties

    return [part for pair in load_properties(path).items() for part in ("-X", "=".join(pair))]


def _discovery(given: dict[str, list[str]]) -> list[str]:
    return _pass(given, {"zookeeper": "-z", "broker-list": "-b", "bootstrap-server": "-b"})


_FORMATTERS = {"DefaultMessageFormatter": [], "NoOpMessageFormatter": ["-f", ""]}


def _formatter(given: dict[str, list[str]]) -> list[str]:
    """Say a formatter's class in options of ours.

    Raises:
        click.UsageError: it has no counterpart here.
    """
    name = _one(given, "formatter")
    if name is None:
        return []
    simple = name.removeprefix("kafka.tools.").removeprefix("kafka.consumer.ConsoleConsumer$")
    if simple in _FORMATTERS:
        return _FORMATTERS[simple]
    if "OffsetsMessageFormatter" in name or "GroupMetadataMessageFormatter" in name:
        instead = "zkbroker dump-log --offsets-decoder prints what __consumer_offsets holds"
    else:
        instead = "print messages with zkbroker consume -f FORMAT, or -J for JSON"
    raise click.UsageError(
        f"--formatter {name} is not here, only {' and '.join(_FORMATTERS)}: {instead}"
    )


def _console_consumer(given: dict[str, list[str]]) -> list[str]:
    import uuid

    topics = [name for name in ("topic", "whitelist") if name in given]
    if len(topics) != 1:
        raise click.UsageError("give exactly one of --topic and --whitelist")
    properties = _properties(given)
    shown = ["consume", *_discovery(given), *_generation(given)]
    shown += _pass(given, {"max-messages": "-c"})
    end = properties.get("line.separator", "\\n")
    if properties.get("print.key", "false").lower() == "true":
        shown += ["-K", properties.get("key.separator", "\\t")]
    shown += ["-D", end, "-Z", *_formatter(given)]
    if "partition" in given or "zookeeper" not in given:
        where = _one(given, "offset") or ("beginning" if "from-beginning" in given else "end")
        where = {"earliest": "beginning", "latest": "end"}.get(where, where)
        shown += ["-t", _required(given, "topic"), "-o", where]
        shown += _pass(given, {"partition": "-p"})
    else:
        settings = _file_settings(_one(given, "consumer.config"))
        groups = [
            text.split("=", 1)[1] for text in settings if text.startswith(("group.id=", "groupid="))
        ]
        group = groups[-1] if groups else f"console-consumer-{uuid.uuid4().int % 100_000}"
        reset = "smallest" if "from-beginning" in given else "largest"
        shown += ["-G", group, *settings, "-X", f"auto.offset.reset={reset}"]
        shown += [_required(given, topics[0])]
    if "timeout-ms" in given:
        shown += ["-X", f"consumer.timeout.ms={_required(given, 'timeout-ms')}"]
    return shown


def _console_producer(given: dict[str, list[str]]) -> list[str]:
    properties = _properties(given)
    shown = ["produce", *_discovery(given), *_generation(given)]
    shown += ["-t", _required(given, "topic")]
    if "compression-codec" in given:
        shown += ["--codec", _one(given, "compression-codec") or "gzip"]
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
            shown += ["-X", f"{key}={_required(given, name)}"]
    return shown


def _topics(given: dict[str, list[str]]) -> list[str]:
    actions = [each for each in ("list", "create", "describe", "alter", "delete") if each in given]
    if len(actions) != 1:
        raise click.UsageError(
            "give exactly one of --list, --create, --describe, --alter, --delete"
        )
    (action,) = actions
    topic = _one(given, "topic")
    shown = ["topics", action, "-z", _required(given, "zookeeper")]
    if action in ("create", "alter", "delete"):
        shown.append(_required(given, "topic"))
    elif action == "describe" and topic is not None:
        shown.append(topic)
    return shown + _pass(
        given,
        {
            name: f"--{name}"
            for name in (
                "partitions",
                "replication-factor",
                "replica-assignment",
                "config",
                "delete-config",
                "unavailable-partitions",
                "under-replicated-partitions",
                "under-min-isr-partitions",
                "topics-with-overrides",
                "disable-rack-aware",
                "if-not-exists",
            )
        },
    )


def _reassign(given: dict[str, list[str]]) -> list[str]:
    actions = [each for each in ("generate", "execute", "verify") if each in given]
    if len(actions) != 1:
        raise click.UsageError("give exactly one of --generate, --execute, --verify")
    where = ["-z", _required(given, "zookeeper")]
    if actions == ["generate"]:
        shown = ["reassign", "plan", *where, "--with-current"]
        shown += ["--topics-file", _required(given, "topics-to-move-json-file")]
        shown += ["--brokers", _required(given, "broker-list")]
        return shown + _pass(given, {"disable-rack-aware": "--disable-rack-aware"})
    shown = ["reassign", actions[0], _required(given, "reassignment-json-file"), *where]
    if actions == ["verify"]:
        shown.append("--status-zero")
    else:
        shown += ["--no-rollback", *_pass(given, {"throttle": "--throttle"})]
    return shown


def _elect(given: dict[str, list[str]]) -> list[str]:
    shown = ["elect", "--genuine-text", "-z", _required(given, "zookeeper")]
    return shown + _pass(given, {"path-to-json-file": "--file"})


def _offset_checker(given: dict[str, list[str]]) -> list[str]:
    topics = (_one(given, "topic") or "").split(",")
    shown = ["groups", "describe", _required(given, "group"), "-z", _required(given, "zookeeper")]
    shown.append("--table-only")
    if "broker-info" in given:
        shown.append("--broker-info")
    return shown + [part for topic in topics if topic for part in ("-t", topic)]


def _get_offsets(given: dict[str, list[str]]) -> list[str]:
    shown = ["offsets", "get", "-t", _required(given, "topic"), *_discovery(given)]
    return shown + _pass(
        given, {"partitions": "--partitions", "time": "--time", "offsets": "--offsets"}
    )


def _export(given: dict[str, list[str]]) -> list[str]:
    group = _one(given, "group")
    shown = ["offsets", "export", "-z", _required(given, "zkconnect")]
    return shown + _pass(given, {"output-file": "-o"}) + ([group] if group else [])


def _import(given: dict[str, list[str]]) -> list[str]:
    return [
        "offsets",
        "import",
        _required(given, "input-file"),
        "-z",
        _required(given, "zkconnect"),
    ]


def _update(given: dict[str, list[str]]) -> list[str]:
    from zkbroker.config import load_properties

    bare = given.get("", [])
    if len(bare) != 3:
        raise click.UsageError("give earliest or latest, a consumer property file, and a topic")
    when, path, topic = bare
    properties = load_properties(path)
    group = properties.get("group.id") or properties.get("groupid")
    connect = properties.get("zookeeper.connect") or properties.get("zk.connect")
    if group is None or connect is None:
        raise click.UsageError(f"{path} needs group.id and zookeeper.connect")
    where = ["-z", connect, "--kept-by", "zookeeper"]
    return ["offsets", "reset", group, when, *where, "-t", topic]


def _dump(given: dict[str, list[str]]) -> list[str]:
    names = (
        "files",
        "print-data-log",
        "deep-iteration",
        "verify-index-only",
        "index-sanity-check",
        "max-message-size",
        "value-decoder-class",
        "key-decoder-class",
        "offsets-decoder",
    )
    return ["dump-log", *_pass(given, {name: f"--{name}" for name in names})]


def _simple_shell(given: dict[str, list[str]]) -> list[str]:
    where = {"-2": "beginning", "-1": "end"}.get(_one(given, "offset") or "-2")
    shown = ["consume", *_discovery(given), "-t", _required(given, "topic")]
    shown += ["-p", _one(given, "partition") or "0", "-o", where or _required(given, "offset")]
    formatter = _formatter(given)
    if "print-offsets" in given:
        value = "" if formatter else "%s\\n"
        formatter = ["-f", f"next offset = %o\\n{value}"]
    shown += formatter
    return shown + _pass(given, {"max-messages": "-c", "no-wait-at-logend": "-e"})


def _verify(given: dict[str, list[str]]) -> list[str]:
    return [
        "groups",
        "verify",
        _required(given, "group"),
        "-z",
        _required(given, "zookeeper.connect"),
    ]


def _replay(given: dict[str, list[str]]) -> list[str]:
    shown = ["replay", "--from", _required(given, "inputtopic")]
    shown += ["--to", _required(given, "outputtopic"), *_discovery(given)]
    shown += _pass(given, {"messages": "--messages", "sync": "--sync"})
    return shown + [part for text in given.get("property", []) for part in ("-X", text)]


def _mirror_maker(given: dict[str, list[str]]) -> list[str]:
    from zkbroker.config import load_properties

    if ("whitelist" in given) == ("blacklist" in given):
        raise click.UsageError("give exactly one of --whitelist and --blacklist")
    _required(given, "consumer.config")
    _required(given, "producer.config")
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


def _migration_tool(given: dict[str, list[str]]) -> list[str]:
    return [*_mirror_maker(given), "--from-07"]


def _performance(kind: str) -> Translation:
    def translate(given: dict[str, list[str]]) -> list[str]:
        topic = _one(given, "topic") or _required(given, "topics")
        names = (
            "messages",
            "message-size",
            "batch-size",
            "threads",
            "sync",
            "fetch-size",
            "reporting-interval",
            "show-detailed-stats",
            "hide-header",
        )
        ours = {name: f"--{name}" for name in names}
        ours["request-num-acks"] = "--acks"
        return ["perf", kind, *_discovery(given), "-t", topic, *_pass(given, ours)]

    return translate


_FIND = ("zookeeper", "broker-list", "bootstrap-server")
_STATS = ("show-detailed-stats", "hide-header")

TOOLS = {
    "kafka-console-consumer": Tool(
        "Print messages of a topic.",
        _console_consumer,
        example="--zookeeper 127.0.0.1:2181 --topic visits --from-beginning",
        values=(
            *_FIND, "topic", "whitelist", "consumer.config", "property", "max-messages",
            "partition", "offset", "timeout-ms", "formatter",
        ),
        flags=("from-beginning",),
        ignored=("key-deserializer", "value-deserializer", "metrics-dir"),
    ),
    "kafka-console-producer": Tool(
        "Publish lines of standard input.",
        _console_producer,
        example="--broker-list 127.0.0.1:9092 --topic visits < lines",
        values=(
            *_FIND, "topic", "batch-size", "message-send-max-retries", "retry-backoff-ms",
            "timeout", "queue-size", "request-required-acks", "request-timeout-ms", "property",
        ),
        flags=("sync",),
        optional=("compression-codec",),
        ignored=(
            "line-reader", "key-serializer", "value-serializer", "socket-buffer-size", "sync",
        ),
    ),
    "kafka-topics": Tool(
        "List, create, describe, alter and delete topics.",
        _topics,
        example="--zookeeper 127.0.0.1:2181 --create --topic visits --partitions 8",
        values=(
            "zookeeper", "topic", "partitions", "replication-factor", "replica-assignment",
            "config", "delete-config",
        ),
        flags=(
            "list", "create", "describe", "alter", "delete", "unavailable-partitions",
            "under-replicated-partitions", "under-min-isr-partitions",
            "topics-with-overrides", "disable-rack-aware", "if-not-exists",
        ),
    ),
    "kafka-reassign-partitions": Tool(
        "Move partitions between brokers.",
        _reassign,
        example="--zookeeper 127.0.0.1:2181 --reassignment-json-file plan.json --execute",
        values=(
            "zookeeper", "reassignment-json-file", "topics-to-move-json-file", "broker-list",
            "throttle",
        ),
        flags=("generate", "execute", "verify", "disable-rack-aware"),
        ignored=("timeout",),
    ),
    "kafka-preferred-replica-election": Tool(
        "Let preferred replicas lead again.",
        _elect,
        example="--zookeeper 127.0.0.1:2181",
        values=("zookeeper", "path-to-json-file"),
    ),
    "kafka-consumer-offset-checker": Tool(
        "Show a ZooKeeper group's offsets and lag.",
        _offset_checker,
        example="--zookeeper 127.0.0.1:2181 --group counters",
        values=("zookeeper", "group", "topic"),
        flags=("broker-info",),
        ignored=("retry.backoff.ms", "socket.timeout.ms"),
    ),
    "kafka-get-offsets": Tool(
        "Print log offsets by time.",
        _get_offsets,
        example="--broker-list 127.0.0.1:9092 --topic visits --time -1",
        values=("broker-list", "bootstrap-server", "topic", "partitions", "time", "offsets"),
        ignored=("max-wait-ms",),
    ),
    "kafka-export-zk-offsets": Tool(
        "Write the offsets of ZooKeeper groups.",
        _export,
        example="--zkconnect 127.0.0.1:2181 --group counters",
        values=("zkconnect", "group", "output-file"),
    ),
    "kafka-import-zk-offsets": Tool(
        "Commit exported offsets.", _import,
        example="--zkconnect 127.0.0.1:2181 --input-file offsets.txt",
        values=("zkconnect", "input-file")
    ),
    "kafka-update-offsets-in-zk": Tool(
        "Reset a ZooKeeper group: earliest|latest consumer.properties topic.",
        _update,
        example="earliest consumer.properties visits",
        positional=3,
    ),
    "kafka-dump-log": Tool(
        "Print what segments and indexes hold.",
        _dump,
        example="--files visits-0/00000000000000000000.log --print-data-log",
        values=("files", "max-message-size", "value-decoder-class", "key-decoder-class"),
        flags=(
            "print-data-log", "deep-iteration", "verify-index-only", "index-sanity-check",
            "offsets-decoder",
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
    "kafka-verify-consumer-rebalance": Tool(
        "Find unowned partitions and owners that are gone.",
        _verify,
        example="--zookeeper.connect 127.0.0.1:2181 --group counters",
        values=("zookeeper.connect", "group"),
    ),
    "kafka-replay-log-producer": Tool(
        "Copy what a topic holds into another one.",
        _replay,
        example="--broker-list 127.0.0.1:9092 --zookeeper 127.0.0.1:2181 "
        "--inputtopic visits --outputtopic again",
        values=("zookeeper", "broker-list", "inputtopic", "outputtopic", "messages", "property"),
        flags=("sync",),
        ignored=("threads", "reporting-interval"),
    ),
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
        _migration_tool,
        example="--consumer.config old.properties --producer.config here.properties "
        "--whitelist visits",
        values=("consumer.config", "producer.config", "num.streams", "whitelist", "blacklist"),
        ignored=("kafka.07.jar", "zkclient.01.jar", "num.producers", "queue.size"),
    ),
    "kafka-producer-perf-test": Tool(
        "Measure publishing.",
        _performance("produce"),
        example="--broker-list 127.0.0.1:9092 --topic perf --messages 100000",
        values=(
            *_FIND, "topic", "topics", "messages", "message-size", "batch-size", "threads",
            "reporting-interval", "request-num-acks",
        ),
        flags=("sync", *_STATS),
        ignored=("compression-codec", "request-timeout-ms", "date-format"),
    ),
    "kafka-consumer-perf-test": Tool(
        "Measure reading.",
        _performance("consume"),
        example="--zookeeper 127.0.0.1:2181 --topic perf",
        values=(*_FIND, "topic", "messages", "fetch-size", "reporting-interval"),
        flags=_STATS,
        ignored=("group", "threads", "socket-buffer-size", "num-fetch-threads", "date-format"),
    ),
}  # fmt: skip

CLASSES = {
    "kafka.tools.MirrorMaker": "kafka-mirror-maker",
    "kafka.tools.KafkaMigrationTool": "kafka-migration-tool",
    "kafka.tools.ConsoleConsumer": "kafka-console-consumer",
    "kafka.tools.ConsoleProducer": "kafka-console-producer",
    "kafka.admin.TopicCommand": "kafka-topics",
    "kafka.admin.ReassignPartitionsCommand": "kafka-reassign-partitions",
    "kafka.admin.PreferredReplicaLeaderElectionCommand": "kafka-preferred-replica-election",
    "kafka.tools.ConsumerOffsetChecker": "kafka-consumer-offset-checker",
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
"""All that `find` knows."""


def find(name: str) -> click.Command | None:
    """Return the tool of a script's name (with or without `.sh`) or of a class."""
    known = CLASSES.get(name, name.removesuffix(".sh"))
    tool = TOOLS.get(known)
    return None if tool is None else tool.command(known)
