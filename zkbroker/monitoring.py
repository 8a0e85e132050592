"""Producers and consumers in Prometheus form, as brokers show theirs.

    from zkbroker.monitoring import ClientCollector, serve

    REGISTRY.register(ClientCollector(producer, consumer))   # prometheus_client's, beside one's own
    serve(9991, producer, consumer)                          # or a port of its own

It needs `prometheus-client`: `pip install 'zkbroker[metrics]'`.

Invariant: names are those that operators know from the JMX beans: counters keep the bean's name
without `PerSec`, as `zkbroker_producer_messages_total{client_id=…,topic=…}` for MessagesPerSec;
durations are histograms in seconds. A scrape reads the counts as they are and costs a client
nothing at other times.
"""

import re
from collections.abc import Callable, Iterator

from prometheus_client import start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from zkbroker.measures import BOUNDS_MS, Family, Histogram, Measured


class ClientCollector(Collector):
    """Turns the counts of clients into metric families.

    Args:
        clients: producers and consumers; each is known by its `client.id`, with a number
            where several have the same.
    """

    def __init__(self, *clients: Measured) -> None:
        self._clients = clients

    def collect(self) -> Iterator[Metric]:
        """Yield every family, with the samples of all clients."""
        families: dict[str, Metric] = {}
        used: set[tuple[str, str]] = set()
        for client in self._clients:
            name, number = client.client_id or client.role, 1
            while (client.role, name) in used:
                number += 1
                name = f"{client.client_id or client.role}-{number}"
            used.add((client.role, name))
            for measure in client.measures():
                metric = metric_name(measure.bean, client.role)
                if metric not in families:
                    families[metric] = _family(metric, measure)
                _fill(families[metric], name, measure)
        yield from families.values()


def serve(port: int, *clients: Measured, host: str = "127.0.0.1") -> Callable[[], None]:
    """Serve the clients' metrics over HTTP, from a thread of its own.

    Args:
        port: to listen on.
        clients: producers and consumers.
        host: address to listen on.

    Returns:
        What ends it.

    Raises:
        OSError: the address cannot be listened on.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ClientCollector(*clients))
    server, thread = start_http_server(port, host, registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def metric_name(bean: str, role: str) -> str:
    """Return the Prometheus name of a bean, without `_total`."""
    for ending in ("PerSec", "RateAndTimeMs", "TimeMs"):
        bean = bean.removesuffix(ending)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bean).lower().removeprefix(f"{role}_")
    return f"zkbroker_{role}_{name}"


def _family(name: str, measure: Family) -> Metric:
    labels = ["client_id", *measure.labels]
    if measure.bean.endswith("TimeMs"):
        return HistogramMetricFamily(
            f"{name}_seconds", f"{measure.bean}, in seconds", labels=labels
        )
    if measure.bean.endswith("PerSec"):
        return CounterMetricFamily(name, measure.bean, labels=labels)
    return GaugeMetricFamily(name, measure.bean, labels=labels)


def _fill(family: Metric, client_id: str, measure: Family) -> None:
    for values, value in measure.samples:
        labels = [client_id, *values]
        if isinstance(value, Histogram):
            assert isinstance(family, HistogramMetricFamily)
            family.add_metric(labels, cumulated(value), value.sum_ms / 1000)
        else:
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
            family.add_metric(labels, value)


def cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulate the counts, as Prometheus wants them: bounds in seconds."""
    found: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip(BOUNDS_MS, histogram.buckets, strict=False):
        total += count
        found.append((str(bound / 1000), total))
    found.append(("+Inf", histogram.count))
    return found
