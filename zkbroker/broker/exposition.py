"""The metrics of a broker in Prometheus form.

Invariant: a page is made from the counts at the time of its request, and costs a broker nothing at
other times. The names are those of Kafka's JMX beans: counters keep the bean's name without
`PerSec`, such as `zkbroker_messages_in_total{topic=…}` for MessagesInPerSec.
"""

import re
from collections.abc import Callable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from zkbroker import __version__
from zkbroker.broker.metrics import RequestMetrics, TopicMetrics
from zkbroker.broker.replication_metrics import ReplicationFigures, replication_figures
from zkbroker.broker.services import BrokerServices
from zkbroker.controller import ControllerMetrics
from zkbroker.coordinator.transactions.counts import TransactionCounts, TransactionFigures
from zkbroker.monitoring import cumulated
from zkbroker.protocol import ApiKey
from zkbroker.protocol.transaction_topic import TransactionState


class BrokerCollector(Collector):
    """Turns the counts of a broker into metric families."""

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
        yield self._logins()
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
        for client_id, times, throttled_ms in self._services.clients.throttled():
            requests.add_metric([client_id], times)
            seconds.add_metric([client_id], throttled_ms / 1000)
        yield requests
        yield seconds

    def _logins(self) -> Metric:
        labels = ["listener", "mechanism", "result"]
        logins = CounterMetricFamily("zkbroker_logins", "Logins", labels=labels)
        for (name, mechanism, good), count in self._services.metrics.logins.items():
            logins.add_metric([name, mechanism or "none", "good" if good else "failed"], count)
        return logins

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
        yield from _figures("zkbroker_replica", replication_figures(self._services))
        lags = GaugeMetricFamily(
            "zkbroker_replica_lag", "ConsumerLag, in messages", labels=["topic", "partition"]
        )
        for key, lag in self._services.fetchers.lags().items():
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
        yield from _figures("zkbroker_controller", figures)
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


def _figures(prefix: str, figures: ReplicationFigures | ControllerMetrics) -> Iterator[Metric]:
    for attribute, bean in figures.GAUGES:
        name = f"{prefix}_{_snake(bean)}"
        yield GaugeMetricFamily(name, bean, value=getattr(figures, attribute))
    for attribute, bean in figures.COUNTERS:
        name = f"{prefix}_{_snake(bean.removesuffix('PerSec'))}"
        yield CounterMetricFamily(name, bean, value=getattr(figures, attribute))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
