"""`zkbroker transactions`: list, describe and abort transactions, find those that hang."""

import datetime as dt
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.output import json_option, print_json, print_table, say, warn
from zkbroker.errors import ClientError, ConfigError

if TYPE_CHECKING:
    from zkbroker.admin.open_transactions import Judged
    from zkbroker.admin.transactional_ids import TransactionalId

_NAMED = 5


def duration_ms(ctx: click.Context, param: click.Parameter, text: str) -> int:
    """Turn a time with its unit, as `15m`, into milliseconds."""
    from zkbroker.config.durations import parse_duration_ms

    try:
        return parse_duration_ms(text, bare=False)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


@click.group(
    "transactions",
    epilog="\b\nExamples:\n"
    "  zkbroker transactions list -b 127.0.0.1:9092\n"
    "  zkbroker transactions describe copier -b 127.0.0.1:9092\n"
    "  zkbroker transactions find-hanging -b 127.0.0.1:9092",
)
def command() -> None:
    """List, describe and abort transactions, find those that hang.

    Coordinators' states are read from the topic __transaction_state, open transactions from the
    partitions' logs, so this works with brokers of Kafka 0.11 to 2.x too.
    """


@command.command("list", epilog="\b\nExample:\n  zkbroker transactions list --state Ongoing")
@cluster_options
@click.option("--state", "states", multiple=True, help="Only in this state; repeatable.")
@json_option
def list_command(
    bootstrap: str | None, zookeeper: str | None, states: tuple[str, ...], as_json: bool
) -> None:
    """List transactional ids, their producers and states."""
    from zkbroker.admin.transactional_ids import list_ids, state_name
    from zkbroker.protocol.transaction_topic import TransactionState

    allowed = {state_name(each).lower(): each for each in TransactionState}
    for state in states:
        if state.lower() not in allowed:
            names = ", ".join(state_name(each) for each in TransactionState)
            raise click.BadParameter(f"{state!r} is not a state: give one of {names}")
    wanted = {allowed[state.lower()] for state in states}
    with open_cluster(bootstrap, zookeeper) as cluster:
        found = [each for each in list_ids(cluster) if not wanted or each.state in wanted]
    now_ms = _now_ms()
    if as_json:
        print_json([_as_json(each, now_ms) for each in found])
        return
    print_table(
        ["transactional id", "coordinator", "producer id", "epoch", "state", "open for"],
        [
            (
                each.name,
                each.coordinator,
                each.producer_id,
                each.producer_epoch,
                state_name(each.state),
                _span(now_ms - each.start_ms) if each.open else None,
            )
            for each in found
        ],
        numbers=[1, 2, 3, 5],
    )


@command.command("describe", epilog="\b\nExample:\n  zkbroker transactions describe copier")
@click.argument("transactional_id")
@cluster_options
@json_option
def describe_command(
    transactional_id: str, bootstrap: str | None, zookeeper: str | None, as_json: bool
) -> None:
    """Show one transactional id and its partitions."""
    from zkbroker.admin.open_transactions import find_open
    from zkbroker.admin.transactional_ids import describe_id, state_name

    with open_cluster(bootstrap, zookeeper) as cluster:
        found = describe_id(cluster, transactional_id)
        cluster.refresh(sorted({topic for topic, _ in found.partitions}))
        led = [key for key in found.partitions if cluster.leader(*key) is not None]
        first = {
            each.partition: each.first_offset
            for each in find_open(cluster, led)
            if each.producer_id == found.producer_id
        }
    now_ms = _now_ms()
    if as_json:
        content = _as_json(found, now_ms)
        for each in content["partitions"]:
            each["first_offset"] = first.get((each["topic"], each["partition"]))
        print_json(content)
        return
    rows: list[tuple[str, object]] = [
        ("transactional id", found.name),
        ("coordinator", found.coordinator),
        ("producer id", found.producer_id),
        ("producer epoch", found.producer_epoch),
        ("state", state_name(found.state)),
        ("time-out", _span(found.timeout_ms)),
        ("last update", _moment(found.last_update_ms)),
    ]
    if found.open:
        rows += [
            ("begun", _moment(found.start_ms)),
            ("open for", _span(now_ms - found.start_ms)),
        ]
    for name, value in rows:
        say(f"{name + ':':<18}{'-' if value is None else value}")
    if found.partitions:
        say()
        print_table(
            ["topic", "partition", "first offset"],
            [(*key, first.get(key)) for key in found.partitions],
            numbers=[1, 2],
        )


@command.command(
    "find-hanging",
    epilog="\b\nExamples:\n"
    "  zkbroker transactions find-hanging --older-than 1h\n"
    "  zkbroker transactions find-hanging -t visits --all",
)
@cluster_options
@click.option("-t", "--topic", help="Only in this topic.")
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), help="Only in this partition of the topic."
)
@click.option(
    "--older-than",
    callback=duration_ms,
    default="15m",  # that of the brokers' transaction.max.timeout.ms
    metavar="DURATION",
    show_default=True,
    help="How long a transaction must be open, by the time of its first messages.",
)
@click.option("--all", "show_all", is_flag=True, help="Also those that a coordinator will end.")
@json_option
def find_hanging_command(
    bootstrap: str | None,
    zookeeper: str | None,
    topic: str | None,
    partition: int | None,
    older_than: int,
    show_all: bool,
    as_json: bool,
) -> None:
    """Find open transactions that no coordinator will end.

    Readers of committed messages stop before them, and the log is not compacted beyond them. Each
    is shown with the command that aborts it.

    Exit status 1 when there are any.
    """
    from zkbroker.admin.open_transactions import Verdict, find_hanging, led_partitions

    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    with open_cluster(bootstrap, zookeeper) as cluster:
        led, without = led_partitions(cluster, topic)
        if topic is not None and partition is not None:
            if (topic, partition) not in [*led, *without]:
                count = len(led) + len(without)
                raise ClientError(f"topic {topic} has no partition {partition}: it has {count}")
            led = [key for key in led if key[1] == partition]
            without = [key for key in without if key[1] == partition]
        found = find_hanging(cluster, led, older_than_ms=older_than)
    if without:
        names = ", ".join(f"{name}-{number}" for name, number in sorted(without)[:_NAMED])
        more = f" and {len(without) - _NAMED} more" if len(without) > _NAMED else ""
        warn(f"without a leader, and not checked: {names}{more}")
    hanging = [each for each in found if each.verdict is Verdict.HANGING]
    shown = found if show_all else hanging
    if as_json:
        print_json([_judged_as_json(each) for each in shown])
    elif shown:
        _print_judged(shown)
        for each in hanging:
            where = each.transaction
            say(
                f"zkbroker transactions abort -t {where.partition[0]} -p {where.partition[1]} "
                f"--start-offset {where.first_offset}"
            )
    else:
        say(f"no transaction hangs for {_span(older_than)} or longer")
    if hanging:
        sys.exit(1)


@command.command(
    "abort",
    epilog="\b\nExamples:\n"
    "  zkbroker transactions abort copier\n"
    "  zkbroker transactions abort -t visits -p 0 --start-offset 1234",
)
@click.argument("transactional_id", required=False)
@cluster_options
@click.option("-t", "--topic", help="Topic of a hanging transaction.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Its partition.")
@click.option("--start-offset", type=click.IntRange(min=0), help="Offset of its first message.")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(min=0, max=2**31 - 1),
    help="Coordinator epoch of the marker; the known one by default.",
)
@click.option("--force", is_flag=True, help="Write the marker even if a coordinator has it.")
def abort_command(
    transactional_id: str | None,
    bootstrap: str | None,
    zookeeper: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    coordinator_epoch: int | None,
    force: bool,
) -> None:
    """Abort a transaction.

    Given a TRANSACTIONAL_ID, its coordinator aborts the transaction in every partition, and fences
    the producer. A hanging one, which no coordinator knows, is named by topic, partition and first
    offset, as find-hanging shows them: the partition's leader writes an ABORT marker.
    """
    from zkbroker.admin import open_transactions, transactional_ids

    by_marker = (topic, partition, start_offset)
    if transactional_id is not None:
        if by_marker != (None, None, None) or coordinator_epoch is not None or force:
            raise click.UsageError(
                "a transactional id is aborted in all its partitions: give it alone, "
                "or --topic, --partition and --start-offset without it"
            )
        with open_cluster(bootstrap, zookeeper) as cluster:
            ended = transactional_ids.abort(cluster, transactional_id)
        say(
            f"aborted the transaction of {transactional_id} in {len(ended.partitions)} partitions; "
            f"producer {ended.producer_id} of epoch {ended.producer_epoch} is fenced"
        )
        return
    if topic is None or partition is None or start_offset is None:
        raise click.UsageError(
            "which transaction? give a TRANSACTIONAL_ID, or --topic, --partition and "
            "--start-offset of a hanging one (zkbroker transactions find-hanging shows them)"
        )
    with open_cluster(bootstrap, zookeeper) as cluster:
        cluster.partitions(topic)
        marked = open_transactions.abort_by_marker(
            cluster,
            (topic, partition),
            start_offset,
            coordinator_epoch=coordinator_epoch,
            force=force,
        )
    say(
        f"aborted the transaction of producer {marked.producer_id} in {topic}-{partition}, "
        f"offsets {marked.first_offset} to {marked.last_offset}"
    )


def _print_judged(found: "list[Judged]") -> None:
    now_ms = _now_ms()
    print_table(
        [
            *("topic", "partition", "leader", "producer id", "epoch", "first offset"),
            *("open for", "transactional id", "fate"),
        ],
        [
            (
                *each.transaction.partition,
                each.transaction.leader,
                each.transaction.producer_id,
                each.transaction.producer_epoch,
                each.transaction.first_offset,
                _span(now_ms - each.transaction.since_ms),
                None if each.of is None else each.of.name,
                each.verdict.value,
            )
            for each in found
        ],
        numbers=[1, 2, 3, 4, 5, 6],
    )


def _judged_as_json(each: "Judged") -> dict[str, object]:
    where = each.transaction
    return {
        "topic": where.partition[0],
        "partition": where.partition[1],
        "leader": where.leader,
        "producer_id": where.producer_id,
        "producer_epoch": where.producer_epoch,
        "first_offset": where.first_offset,
        "last_offset": where.last_offset,
        "since_ms": where.since_ms,
        "transactional_id": None if each.of is None else each.of.name,
        "fate": each.verdict.value,
    }


def _as_json(each: "TransactionalId", now_ms: int) -> dict[str, Any]:
    from zkbroker.admin.transactional_ids import state_name

    return {
        "transactional_id": each.name,
        "coordinator": each.coordinator,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": state_name(each.state),
        "timeout_ms": each.timeout_ms,
        "last_update_ms": each.last_update_ms,
        "start_ms": each.start_ms if each.open else None,
        "open_ms": now_ms - each.start_ms if each.open else None,
        "partitions": [
            {"topic": topic, "partition": partition} for topic, partition in each.partitions
        ],
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _moment(time_ms: int) -> str:
    found = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
    return found.isoformat(" ", "milliseconds").replace("+00:00", " UTC")


def _span(ms: int) -> str:
    """Return a duration in its two largest units."""
    ms = max(0, ms)
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms // 1000
    for size, name, below, below_name in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size} {name}" + (f" {rest} {below_name}" if rest else "")
    return f"{seconds} s"
