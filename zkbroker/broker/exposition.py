"""The HTTP page of a broker: metrics in Prometheus form, and which client speaks what.

    GET /metrics         Prometheus text format
    GET /clients         the form of `client-versions.json`

Invariant: a page is made of the counts as they are when it is asked for; making it costs a broker
nothing at other times. The names are those that operators know from the JMX beans: counters keep
the bean's name without `PerSec`, as `zkbroker_messages_in_total{topic=…}` for MessagesInPerSec.
"""

import contextlib
import errno
import json
import logging
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore
from gevent.pywsgi import WSGIHandler, WSGIServer
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from zkbroker import __version__
from zkbroker.broker.metrics import RequestMetrics, TopicMetrics
from zkbroker.broker.replication_metrics import ReplicationFigures, replication_figures
from zkbroker.broker.services import BrokerServices
from zkbroker.controller import ControllerMetrics
from zkbroker.coordinator.transactions.counts import TransactionCounts, TransactionFigures
from zkbroker.monitoring import cumulated
from zkbroker.protocol import ApiKey
from zkbroker.protocol.transaction_topic import TransactionState
from zkbroker.runtime.greenlets import yield_turn

logger = logging.getLogger(__name__)

StartResponse = Callable[[str, list[tuple[str, str]]], object]

_STOP_TIMEOUT_S = 1
_MAX_CONNECTIONS = 32
"""More wait to be accepted: a page takes some hundred KiB until it is read."""
_EXCHANGE_TIMEOUT_S = 30
"""For a peer to send its request and to take its page."""


class BrokerCollector(Collector):
    """Turns the counts of a broker into metric families.

    Args:
        services: the running broker.
        transaction_figures: counts of its transaction coordinator.
    """

    def __init__(
        self, services: BrokerServices, transaction_figures: Callable[[], TransactionFigures]
    ) -> None:
        self._services = services
        self._transaction_figures = transaction_figures

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._topics()
        yield from self._requests()
        yield from self._throttled()
        yield from self._partitions()
        yield self._flushes()
        yield from self._cleaner()
        yield from self._replication()
        yield from self._transactions()
        yield from self._controller()
        yield self._broker()

    def _topics(self) -> Iterator[Metric]:
        for attribute, bean in TopicMetrics.NAMES:
            family = CounterMetricFamily(
                f"zkbroker_{_snake(bean.removesuffix('PerSec'))}", bean, labels=["topic"]
            )
            for topic, counts in self._services.metrics.topics.items():
                family.add_metric([topic], getattr(counts, attribute))
            yield family

    def _requests(self) -> Iterator[Metric]:
        requests = {
            ApiKey(key).name.lower(): counts
            for key, counts in self._services.metrics.requests.items()
        }
        total = CounterMetricFamily("zkbroker_requests", "RequestsPerSec", labels=["request"])
        errors = CounterMetricFamily("zkbroker_errors", "ErrorsPerSec", labels=["request", "code"])
        for name, counts in requests.items():
            total.add_metric([name], counts.served)
            for code, count in counts.errors.items():
                errors.add_metric([name, str(code)], count)
        yield total
        yield errors
        for number, bean in enumerate(RequestMetrics.TIMES):
            times = HistogramMetricFamily(
                f"zkbroker_request_{_snake(bean.removesuffix('TimeMs'))}_seconds",
                f"{bean}, in seconds",
                labels=["request"],
            )
            for name, counts in requests.items():
                histogram = counts.times()[number]
                times.add_metric([name], cumulated(histogram), histogram.sum_ms / 1000)
            yield times

    def _throttled(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "zkbroker_throttled_requests", "Requests after which a quota muted the connection",
            labels=["client_id"],
        )  # fmt: skip
        seconds = CounterMetricFamily(
            "zkbroker_throttle_seconds", "throttle-time, in seconds", labels=["client_id"]
        )
        for client_id, counts in self._services.clients.throttled():
            requests.add_metric([client_id], counts.throttled)
            seconds.add_metric([client_id], counts.throttled_ms / 1000)
        yield requests
        yield seconds

    def _partitions(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        start = GaugeMetricFamily("zkbroker_log_start_offset", "LogStartOffset", labels=labels)
        end = GaugeMetricFamily("zkbroker_log_end_offset", "LogEndOffset", labels=labels)
        size = GaugeMetricFamily("zkbroker_log_size_bytes", "Size", labels=labels)
        for tp, log in self._services.logs.logs().items():
            where = [tp.topic, str(tp.partition)]
            start.add_metric(where, log.log_start_offset)
            end.add_metric(where, log.log_end_offset)
            size.add_metric(where, log.size_bytes)
        yield from (start, end, size)

    def _flushes(self) -> Metric:
        family = HistogramMetricFamily(
            "zkbroker_log_flush_seconds", "LogFlushRateAndTimeMs, in seconds", labels=["directory"]
        )
        for directory, times in self._services.logs.flush_times().items():
            family.add_metric([directory], cumulated(times), times.sum_ms / 1000)
        return family

    def _cleaner(self) -> Iterator[Metric]:
        cleaner = self._services.logs.cleaner
        metrics = cleaner.metrics
        since = -1.0
        if metrics.last_run_ms is not None:
            since = (self._services.runtime.now_ms() - metrics.last_run_ms) / 1000
        for name, bean, value in (
            ("uncleanable_partitions", "uncleanable-partitions-count", len(cleaner.uncleanable())),
            ("uncleanable_bytes", "uncleanable-bytes", cleaner.uncleanable_bytes()),
            ("max_dirty_percent", "max-dirty-percent", metrics.max_dirty_percent),
            ("since_last_run_seconds", "time-since-last-run-ms, in seconds", since),
            ("max_clean_seconds", "max-clean-time-secs", metrics.max_clean_time_s),
            (
                "max_buffer_utilization_percent",
                "max-buffer-utilization-percent",
                metrics.max_buffer_utilization_percent,
            ),
            ("recopy_percent", "cleaner-recopy-percent", metrics.recopy_percent),
        ):
            yield GaugeMetricFamily(f"zkbroker_log_cleaner_{name}", bean, value=value)
        for name, text, value in (
            ("passes", "Logs that were compacted", metrics.passes),
            ("bytes", "Bytes read and written by compaction", metrics.bytes_moved),
            ("removed_bytes", "Bytes that compaction removed", metrics.bytes_removed),
            ("removed_records", "Records that compaction removed", metrics.records_removed),
        ):
            yield CounterMetricFamily(f"zkbroker_log_cleaner_{name}", text, value=value)

    def _replication(self) -> Iterator[Metric]:
        services = self._services
        figures = replication_figures(
            services.replicas.all(), services.fetchers, services.metrics.replication_bytes_out
        )
        for attribute, bean in ReplicationFigures.GAUGES:
            name = f"zkbroker_replica_{_snake(bean)}"
            yield GaugeMetricFamily(name, bean, value=getattr(figures, attribute))
        for attribute, bean in ReplicationFigures.COUNTERS:
            name = f"zkbroker_replica_{_snake(bean.removesuffix('PerSec'))}"
            yield CounterMetricFamily(name, bean, value=getattr(figures, attribute))
        lags = GaugeMetricFamily(
            "zkbroker_replica_lag", "ConsumerLag, in messages", labels=["topic", "partition"]
        )
        for key, lag in services.fetchers.lags().items():
            lags.add_metric([key.topic, str(key.partition)], lag)
        yield lags

    def _transactions(self) -> Iterator[Metric]:
        figures = self._transaction_figures()
        states = GaugeMetricFamily(
            "zkbroker_transactional_ids", "Ids coordinated here, by state", labels=["state"]
        )
        for state in TransactionState:
            states.add_metric([state.name.lower()], figures.states.get(state, 0))
        yield states
        yield GaugeMetricFamily(
            "zkbroker_transaction_oldest_open_seconds",
            "How long the oldest transaction that is coordinated here did not end",
            value=figures.oldest_open_ms / 1000,
        )
        for attribute, text in TransactionCounts.NAMES:
            yield CounterMetricFamily(
                f"zkbroker_transaction_{attribute}", text, value=getattr(figures.counts, attribute)
            )
        yield CounterMetricFamily(
            "zkbroker_transaction_marker_retries",
            "Markers that were sent again, by partition",
            value=figures.marker_retries,
        )
        for attribute, name, text in TransactionFigures.GAUGES:
            yield GaugeMetricFamily(f"zkbroker_{name}", text, value=getattr(figures, attribute))
        lags = GaugeMetricFamily(
            "zkbroker_last_stable_offset_lag",
            "LastStableOffsetLag, in messages",
            labels=["topic", "partition"],
        )
        for partition in self._services.replicas.all():
            if partition.leading is not None and partition.has_log:
                mark = partition.high_watermark
                lag = mark - partition.log.last_stable_offset(mark)
                lags.add_metric([partition.key.topic, str(partition.key.partition)], lag)
        yield lags

    def _controller(self) -> Iterator[Metric]:
        figures = self._services.controller_metrics()
        for attribute, bean in ControllerMetrics.GAUGES:
            name = f"zkbroker_controller_{_snake(bean)}"
            yield GaugeMetricFamily(name, bean, value=getattr(figures, attribute))
        for attribute, bean in ControllerMetrics.COUNTERS:
            name = f"zkbroker_controller_{_snake(bean.removesuffix('PerSec'))}"
            yield CounterMetricFamily(name, bean, value=getattr(figures, attribute))
        queues = GaugeMetricFamily("zkbroker_controller_queue_size", "QueueSize", labels=["broker"])
        for broker, size in sorted(figures.queued_requests.items()):
            queues.add_metric([str(broker)], size)
        yield queues

    def _broker(self) -> Metric:
        services = self._services
        family = GaugeMetricFamily(
            "zkbroker_broker",
            "Facts about the broker: its partitions, and whether it is the controller",
            labels=["version", "id", "fact"],
        )
        who = [__version__, str(services.broker_id)]
        family.add_metric([*who, "partitions"], len(services.replicas.all()))
        controls = services.controller_id() == services.broker_id
        family.add_metric([*who, "active_controller"], int(controls))
        return family


class _Handler(WSGIHandler):  # type: ignore[misc]
    """Answers what cannot be an HTTP request with 400.

    A peer that is slow to send or to read is disconnected, so that the others get in. What a peer
    did wrong is a DEBUG line, never a traceback: anybody can send half a request, often.
    """

    ignored_socket_errors = (*WSGIHandler.ignored_socket_errors, errno.EBADF)
    """Hanging up is no failure of the page."""

    def handle(self) -> None:
        deadline = gevent.spawn_later(_EXCHANGE_TIMEOUT_S, _hang_up, self.socket)
        try:
            super().handle()
        except OSError as error:
            self.log_error("peer %s left: %s", self.client_address, error)
        finally:
            deadline.kill(block=False)

    def read_request(self, raw_requestline: str) -> bool:
        try:
            return bool(super().read_request(raw_requestline))
        except HTTPException as error:
            # More than 100 headers, or one of more than 64 KiB.
            raise ValueError(f"the request cannot be read: {error}") from None

    def _handle_client_error(self, ex: Exception) -> tuple[str, bytes] | None:
        if isinstance(ex, OSError):
            # Nobody is left to answer; without a result the connection is closed.
            self.log_error("peer %s left within a request: %s", self.client_address, ex)
            return None
        answer: tuple[str, bytes] = super()._handle_client_error(ex)
        return answer

    def log_error(self, msg: str, *args: object) -> None:
        logger.debug("admin page: %s", msg % args if args else msg)


def _hang_up(peer: Any) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)


class MetricsPage:
    """Serves the page over HTTP on the event loop of the broker.

    Invariant: the port is taken before the broker is registered anywhere; until there is a broker
    to tell about, and again when it stops, every request is answered with 503.

    Args:
        host: address to listen on.
        port: port to listen on, 0 for a free one.
    """

    def __init__(self, host: str, port: int) -> None:
        self._services: BrokerServices | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._server = WSGIServer(
            (host, port),
            self._answer,
            log=None,
            error_log=logger,
            handler_class=_Handler,
            spawn=_MAX_CONNECTIONS,
        )
        self._making = BoundedSemaphore(1)

    @property
    def port(self) -> int:
        """The port listened on."""
        return int(self._server.server_port)

    def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._server.start()

    def show(
        self, services: BrokerServices, transaction_figures: Callable[[], TransactionFigures]
    ) -> None:
        """Begin to show a broker that runs now."""
        self._registry.register(BrokerCollector(services, transaction_figures))
        self._services = services
        logger.info("metrics served port=%d", self.port)

    def hide(self) -> None:
        """Tell nothing any more: the broker is being stopped."""
        self._services = None

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop(_STOP_TIMEOUT_S)

    def _answer(self, environ: dict[str, str], start: StartResponse) -> Iterable[bytes]:
        method = environ.get("REQUEST_METHOD", "GET")
        status, content_type, body = self._page(method, environ.get("PATH_INFO", "/"))
        start(
            status,
            [
                ("Content-Type", content_type),
                ("Content-Length", str(len(body))),
                # The next request has a deadline of its own.
                ("Connection", "close"),
            ],
        )
        return [] if method == "HEAD" else [body]

    def _page(self, method: str, path: str) -> tuple[str, str, bytes]:
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", "text/plain", b"only GET and HEAD\n"
        if path not in ("/metrics", "/clients"):
            return "404 Not Found", "text/plain", b"see /metrics and /clients\n"
        if path == "/metrics":
            with self._making:
                # One at a time, and everybody else's turn between two.
                yield_turn()
                if self._services is not None:
                    return "200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry)
        elif self._services is not None:
            clients = json.dumps(self._services.clients.snapshot())
            return "200 OK", "application/json", clients.encode()
        return (
            "503 Service Unavailable",
            "text/plain",
            b"the broker is starting or stopping\n",
        )


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
