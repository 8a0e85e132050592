"""`zkbroker perf`: throughput of a cluster, printed as the genuine performance tools print it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import click

from zkbroker.cli.connection import cluster_options, discovery_properties, open_cluster
from zkbroker.cli.output import say
from zkbroker.cli.settings import grouped, parse_settings, settings_option
from zkbroker.codecs import CODEC_NAMES
from zkbroker.errors import ClientError

F = TypeVar("F", bound=Callable[..., Any])

_MEGABYTE = 1024 * 1024
_CHUNK = 1000


def _number(name: str, default: int, text: str) -> Callable[[F], F]:
    return click.option(name, type=click.IntRange(1), default=default, show_default=True, help=text)


_report_options = grouped(
    _number(
        "--reporting-interval", 5000, "Milliseconds between the lines of --show-detailed-stats."
    ),
    click.option("--show-detailed-stats", is_flag=True, help="A line for each interval."),
    click.option("--hide-header", is_flag=True, help="Print no column names."),
)


@click.group(
    "perf",
    epilog="\b\nExamples:\n"
    "  zkbroker perf produce -b 127.0.0.1:9092 -t perf --messages 1000000\n"
    "  zkbroker perf consume -b 127.0.0.1:9092 -t perf --messages 1000000",
)
def command() -> None:
    """Measure the throughput of a cluster."""


@dataclass
class Tally:
    """Messages and bytes so far; shared by the threads of a run."""

    messages: int = 0
    bytes: int = 0
    started: float = field(default_factory=time.time)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, messages: int, size: int) -> None:
        """Count."""
        with self.lock:
            self.messages += messages
            self.bytes += size

    def columns(self, now: float) -> tuple[float, float, int, float]:
        """Return MB, MB/s, messages, messages/s."""
        elapsed = max(now - self.started, 0.001)
        megabytes = self.bytes / _MEGABYTE
        return megabytes, megabytes / elapsed, self.messages, self.messages / elapsed


def _moment(seconds: float) -> str:
    local = datetime.fromtimestamp(seconds).astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S}:{local.microsecond // 1000:03d}"


@command.command(
    "produce",
    epilog="\b\nExample:\n"
    "  zkbroker perf produce -b 127.0.0.1:9092 -t perf --messages 1000000 --codec snappy",
)
@cluster_options
@click.option("-t", "--topic", required=True, help="Topic to publish to.")
@_number("--messages", 100_000, "How many.")
@_number("--message-size", 100, "Bytes of each message.")
@_number("--batch-size", 200, "Most messages in a batch.")
@_number("--threads", 1, "Number of concurrent producers.")
@click.option("--sync", is_flag=True, help="Wait for each batch before the next.")
@click.option(
    "--codec",
    type=click.Choice(CODEC_NAMES),
    default="none",
    show_default=True,
    help="Compression.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "-1"]),
    default="1",
    show_default=True,
    help="Acknowledgements to wait for: none, the leader, all replicas.",
)
@_report_options
@settings_option("-X", text="A producer property.")
def produce(
    bootstrap: str | None,
    zookeeper: str | None,
    topic: str,
    messages: int,
    message_size: int,
    batch_size: int,
    threads: int,
    sync: bool,
    codec: str,
    acks: str,
    reporting_interval: int,
    show_detailed_stats: bool,
    hide_header: bool,
    settings: tuple[str, ...],
) -> None:
    """Publish messages of one size and print the throughput."""
    from zkbroker.admin.cluster_tree import require_cluster
    from zkbroker.config.producer import ProducerConfig
    from zkbroker.producer import KeyedMessage, Producer

    config = ProducerConfig.from_properties(
        {
            "producer.type": "sync" if sync else "async",
            "request.required.acks": acks,
            "compression.codec": codec,
            "batch.num.messages": str(batch_size),
            **discovery_properties(bootstrap, zookeeper),
            **parse_settings(settings, "-X"),
        }
    )
    if config.zookeeper_connect:
        require_cluster(config.zookeeper_connect, config.security.zookeeper)
    fixed = f"{CODEC_NAMES.index(codec)}, {message_size}, {batch_size}"
    if not hide_header:
        columns = "compression, message.size, batch.size, total.data.sent.in.MB, MB.sec, "
        columns += "total.data.sent.in.nMsg, nMsg.sec"
        start = "time, " if show_detailed_stats else "start.time, end.time, "
        say(start + columns)
    value = (b"0123456789abcdef" * (message_size // 16 + 1))[:message_size]
    tally = Tally()
    failures: list[Exception] = []
    interrupted = threading.Event()

    def publish(share: int) -> None:
        try:
            with Producer(config) as producer:
                while share and not interrupted.is_set():
                    step = min(share, batch_size if sync else _CHUNK)
                    producer.send([KeyedMessage(topic, value) for _ in range(step)])
                    tally.add(step, step * message_size)
                    share -= step
        except Exception as error:  # noqa: BLE001 - raised by the caller, in its own thread
            failures.append(error)

    workers = [
        threading.Thread(target=publish, args=(messages // threads + (n < messages % threads),))
        for n in range(threads)
    ]
    with _reports(tally, fixed, reporting_interval if show_detailed_stats else None):
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            # The interpreter waits for them.
            interrupted.set()
    if failures:
        raise failures[0]
    if not show_detailed_stats:
        now = time.time()
        sent = "{:.2f}, {:.4f}, {}, {:.4f}".format(*tally.columns(now))
        say(f"{_moment(tally.started)}, {_moment(now)}, {fixed}, {sent}")


@command.command(
    "consume",
    epilog="\b\nExample:\n  zkbroker perf consume -b 127.0.0.1:9092 -t perf --messages 1000000",
)
@cluster_options
@click.option("-t", "--topic", required=True, help="Topic to read.")
@click.option("--messages", type=click.IntRange(1), help="Stop after this many; all without it.")
@_number("--fetch-size", 1024 * 1024, "Most bytes of a fetch.")
@_report_options
def consume(
    bootstrap: str | None,
    zookeeper: str | None,
    topic: str,
    messages: int | None,
    fetch_size: int,
    reporting_interval: int,
    show_detailed_stats: bool,
    hide_header: bool,
) -> None:
    """Read a topic from its beginning and print the throughput."""
    from zkbroker.cli.reading import bounds_of
    from zkbroker.config.fetching import LIMIT_BYTES, FetchSettings
    from zkbroker.consumer import AssignedConsumer

    if not hide_header:
        columns = "fetch.size, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
        say(("time, " if show_detailed_stats else "start.time, end.time, ") + columns)
    settings = FetchSettings(partition_bytes=fetch_size, limit_bytes=max(fetch_size, LIMIT_BYTES))
    with open_cluster(bootstrap, zookeeper) as cluster:
        starts, stops = bounds_of(cluster, topic)
        if messages is not None and sum(stops.values()) - sum(starts.values()) < messages:
            raise ClientError(f"topic {topic} holds fewer than {messages} messages; publish more")
        tally = Tally()
        interval = reporting_interval if show_detailed_stats else None
        with (
            AssignedConsumer(cluster, starts, stop=stops, settings=settings) as consumer,
            _reports(tally, str(fetch_size), interval),
        ):
            read = size = 0
            for message in consumer:
                read += 1
                size += len(message.value or b"")
                if read % _CHUNK == 0:
                    tally.add(_CHUNK, size)
                    size = 0
                if read == messages:
                    break
            tally.add(read % _CHUNK, size)
    if not show_detailed_stats:
        now = time.time()
        taken = "{:.4f}, {:.4f}, {}, {:.4f}".format(*tally.columns(now))
        say(f"{_moment(tally.started)}, {_moment(now)}, {fetch_size}, {taken}")


@contextmanager
def _reports(tally: Tally, fixed: str, interval_ms: int | None) -> Iterator[None]:
    """Print a line for each interval while the work goes on, and a last one at its end."""
    if interval_ms is None:
        yield
        return
    ended = threading.Event()

    def report() -> None:
        now = time.time()
        row = "{:.4f}, {:.4f}, {}, {:.4f}".format(*tally.columns(now))
        say(f"{_moment(now)}, {fixed}, {row}")

    def work() -> None:
        while not ended.wait(interval_ms / 1000):
            report()

    reporter = threading.Thread(target=work, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()
        report()
