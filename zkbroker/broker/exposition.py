"""The HTTP page of a broker: metrics in Prometheus form, and which client speaks what.

    GET /metrics         Prometheus text format
    GET /clients         the form of `client-versions.json`

Invariant: a page is made of the counts as they are when it is asked for; making it costs a broker
nothing at other times. The names are those that operators know from the JMX beans: counters keep
the bean's name without `PerSec`, as `zkbroker_messages_in_total{topic=…}` for MessagesInPerSec.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator

from gevent.pywsgi import WSGIServer
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
from zkbroker.broker.services import BrokerServices
from zkbroker.measures import Histogram
from zkbroker.monitoring import cumulated
from zkbroker.protocol import ApiKey

logger = logging.getLogger(__name__)

StartResponse = Callable[[str, list[tuple[str, str]]], object]

_STOP_TIMEOUT_S = 1


class BrokerCollector(Collector):
    """Turns the counts of a broker into metric families.

    Args:
        services: the running broker.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._topics()
        yield from self._requests()
        yield from self._partitions()
        yield self._flushes()
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
            total.add_metric([name], counts.local.count)
            for code, count in counts.errors.items():
                errors.add_metric([name, str(code)], count)
        yield total
        yield errors
        for attribute, bean in RequestMetrics.TIMES:
            times = HistogramMetricFamily(
                f"zkbroker_request_{_snake(bean.removesuffix('TimeMs'))}_seconds",
                f"{bean}, in seconds",
                labels=["request"],
            )
            for name, counts in requests.items():
                histogram: Histogram = getattr(counts, attribute)
                times.add_metric([name], cumulated(histogram), histogram.sum_ms / 1000)
            yield times

    def _partitions(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        start = GaugeMetricFamily("zkbroker_log_start_offset", "LogStartOffset", labels=labels)
        end = GaugeMetricFamily("zkbroker_log_end_offset", "LogEndOffset", labels=labels)
        size = GaugeMetricFamily("zkbroker_log_size_bytes", "Size", labels=labels)
        for hosted in self._services.hosting.all():
            where = [hosted.topic, str(hosted.number)]
            start.add_metric(where, hosted.log.log_start_offset)
            end.add_metric(where, hosted.log.log_end_offset)
            size.add_metric(where, hosted.log.size_bytes)
        yield from (start, end, size)

    def _flushes(self) -> Metric:
        family = HistogramMetricFamily(
            "zkbroker_log_flush_seconds", "LogFlushRateAndTimeMs, in seconds", labels=["directory"]
        )
        for directory, times in self._services.logs.flush_times().items():
            family.add_metric([directory], cumulated(times), times.sum_ms / 1000)
        return family

    def _broker(self) -> Metric:
        services = self._services
        family = GaugeMetricFamily(
            "zkbroker_broker",
            "Facts about the broker: its partitions, and whether it is the controller",
            labels=["version", "id", "fact"],
        )
        who = [__version__, str(services.broker_id)]
        family.add_metric([*who, "partitions"], len(services.hosting.all()))
        controls = services.controller_id() == services.broker_id
        family.add_metric([*who, "active_controller"], int(controls))
        return family


class MetricsPage:
    """Serves the page over HTTP on the event loop of the broker.

    Args:
        services: the running broker.
        host: address to listen on.
        port: port to listen on, 0 for a free one.
    """

    def __init__(self, services: BrokerServices, host: str, port: int) -> None:
        self._services = services
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(BrokerCollector(services))
        self._server = WSGIServer((host, port), self._answer, log=None, error_log=logger)

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
        logger.info("metrics served port=%d", self.port)

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop(_STOP_TIMEOUT_S)

    def _answer(self, environ: dict[str, str], start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            start("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
            return [generate_latest(self._registry)]
        if path == "/clients":
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self._services.clients.snapshot()).encode()]
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"see /metrics and /clients\n"]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
