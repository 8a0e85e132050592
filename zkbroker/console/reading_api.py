"""The part of the API that reads stored data: messages, the tail, logs; and clients, settings.

Invariant: at most `READERS` requests read messages at once; others wait a moment or are refused.
    That bounds their memory.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, request

from zkbroker.admin.described_configs import described
from zkbroker.admin.entity_configs import BrokerEntity
from zkbroker.console.api import Api, json_answer
from zkbroker.console.collector import Collector
from zkbroker.console.events import EventStreams
from zkbroker.console.messages import Search, browse, whole_part
from zkbroker.console.partition_log import files_of, is_local, offsets_by_time, segments_of
from zkbroker.console.partition_reader import OpenReader, OtherReader, PartitionReader
from zkbroker.console.requests import Refused, bad, missing, number_of, text_of, topic_of, whole
from zkbroker.console.settings_view import setting_rows
from zkbroker.console.start_positions import Begin, parse_start
from zkbroker.console.tail import Tail
from zkbroker.errors import UnsupportedVersion, ZkbrokerError
from zkbroker.runtime import QueueFull, Runtime
from zkbroker.types import parse_partition

READERS = 3
_WAIT_S = 10.0
_MAX_LIMIT = 500
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**47
_MAX_AT = 10_000
_LOG_CHUNK_BYTES = 64 * 1024
_SLICE = 256 * 1024


class ReadingApi:
    """Views of stored data."""

    def __init__(self, api: Api, streams: EventStreams, runtime: Runtime) -> None:
        self._api = api
        self._streams = streams
        self._runtime = runtime
        self._permits = runtime.queue(READERS)

    def add_to(self, blueprint: Blueprint) -> None:
        """Add the routes."""
        for rule, view in (
            ("/messages", self.messages),
            ("/messages/value", self.value),
            ("/messages/tail", self.tail),
            ("/topics/<topic>/partitions/<partition>/log", self.log),
            ("/clients", self.clients),
            ("/settings", self.settings),
            ("/mirrors", self.mirrors),
            ("/loads", self.loads),
        ):
            blueprint.add_url_rule(rule, view.__name__, view)

    def messages(self, cluster: str) -> Response:
        collector = self._api.collector(cluster)
        topic = text_of("topic")
        partitions = _partitions(collector, topic)
        other = collector.seen.generation
        start = parse_start(text_of("from") or ("earliest" if other else "-50"))
        if start.begin is Begin.BACK and other:
            raise bad(
                f"positions of Kafka {other} are bytes, and the start of a message is not known "
                "before it is read: give earliest, latest, a position, or a time"
            )
        if start.begin is Begin.ON:
            raise bad("from=+N is for offsets of groups: give an offset, -N, or a time")
        search = Search(
            start=start,
            at=_places(text_of("at", most=_MAX_AT), partitions),
            limit=number_of("limit", 50, 1, _MAX_LIMIT),
            key=_searched("key"),
            contains=_searched("contains"),
        )
        readers = _readers(collector, topic)
        with self._permit():
            return json_answer(browse(readers, topic, partitions, search, self._runtime))

    def value(self, cluster: str) -> Response:
        collector = self._api.collector(cluster)
        topic = text_of("topic")
        partitions = _partitions(collector, topic)
        if len(partitions) != 1:
            raise bad("partition has to be given: the number of one partition")
        offset = number_of("offset", -1, 0, _MAX_OFFSET)
        part = text_of("part") or "value"
        if part not in ("key", "value"):
            raise bad("part has to be key or value")
        place = (offset, number_of("inside", 0, 0, _MAX_AT))
        readers = _readers(collector, topic)
        with self._permit():
            data = whole_part(readers, topic, partitions[0], place, part)
        response = Response(_sliced(data), mimetype="application/octet-stream")
        name = f"{topic}-{partitions[0]}-{offset}-{part}.bin"
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        response.headers["Content-Length"] = str(len(data))
        # Whatever its content, a browser must not run it as part of this page.
        response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
        return response

    def tail(self, cluster: str) -> Response:
        collector = self._api.collector(cluster)
        topic = text_of("topic")
        partitions = _partitions(collector, topic)
        self._api.require_newer(collector, "live tail here")
        known = collector.access.cluster
        known.partitions(topic)
        tail = Tail(known, topic, partitions, self._runtime, lambda: collector.closed)
        return self._streams.stream(tail.events, request.environ)

    def log(self, cluster: str, topic: str, partition: str) -> Response:
        collector = self._api.collector(cluster)
        number = whole("partition", partition, 0, _MAX_PARTITION)
        key = (topic, number)
        if key not in collector.seen.looks:
            raise missing(f"there is no partition {topic[:249]}-{number}")
        if collector.access.other is not None:
            return json_answer(files_of(collector.access.other.files(topic, number)))
        where = _directory(collector, topic, number)
        segments = None
        if where is not None:
            host, directory = where
            segments = self._runtime.offload(_local_segments, host, directory, topic, number)
        with self._permit():
            times = offsets_by_time(_readers(collector, topic)(number, _LOG_CHUNK_BYTES))
        return json_answer(
            {
                "segments": segments,
                "offsets_by_time": times,
                "directory": None if where is None else where[1],
                "source": "wire" if segments is None else "files",
            }
        )

    def clients(self, cluster: str) -> Response:
        return json_answer(self._api.collector(cluster).clients.view())

    def mirrors(self, cluster: str) -> Response:
        collector = self._api.collector(cluster)
        with self._permit():
            return json_answer(self._api.mirrors(collector).view(collector.access.cluster))

    def loads(self, cluster: str) -> Response:
        return json_answer(self._api.collector(cluster).loads.view())

    def settings(self, cluster: str) -> Response:
        collector = self._api.collector(cluster)
        self._api.require_newer(collector, "settings that brokers tell")
        found: dict[str, Any] = {}
        known = collector.access.cluster
        for broker in sorted(known.brokers()):
            try:
                entries = described(known, BrokerEntity(broker))
            except UnsupportedVersion:
                found[str(broker)] = None
            except ZkbrokerError as error:
                found[str(broker)] = {"error": str(error)}
            else:
                found[str(broker)] = setting_rows(entries)
        return json_answer({"brokers": found})

    @contextmanager
    def _permit(self) -> Iterator[None]:
        try:
            self._permits.put(None, timeout_s=_WAIT_S)
        except QueueFull:
            raise Refused(
                503, "busy", "others read messages at the moment: try again in some seconds"
            ) from None
        try:
            yield
        finally:
            self._permits.get(timeout_s=0)


def _readers(collector: Collector, topic: str) -> OpenReader:
    """Return a function that opens partitions of a topic, after a look-up of their leaders.

    Raises:
        ZkbrokerError: they cannot be looked up.
    """
    cluster, other = collector.access.cluster, collector.access.other
    if other is not None:
        return lambda partition, _: OtherReader(other, topic, partition)
    cluster.partitions(topic)
    return lambda partition, chunk: PartitionReader(cluster, topic, partition, chunk)


def _partitions(collector: Collector, topic: str) -> list[int]:
    """Return the partitions of a request."""
    if not topic:
        raise missing("topic has to be given")
    numbers = [each.partition for each in topic_of(collector.seen, topic).partitions]
    if not request.args.get("partition"):
        return numbers
    number = _partition_number(text_of("partition"))
    if number not in numbers:
        raise missing(f"{topic} has no partition {number}")
    return [number]


def _partition_number(text: str) -> int:
    """Return the number of a partition, from a number or a name of 0.7."""
    try:
        return parse_partition(text)
    except ValueError:
        return whole("partition", text, 0, _MAX_PARTITION)


def _places(text: str, partitions: list[int]) -> Mapping[int, int]:
    """Read `PARTITION:OFFSET,…`."""
    found: dict[int, int] = {}
    for each in text.split(",") if text else ():
        partition, _, offset = each.partition(":")
        number = whole("the partition in at", partition, 0, _MAX_PARTITION)
        if number not in partitions:
            raise missing(f"at names partition {number}, which is not asked for")
        found[number] = whole("the offset in at", offset, 0, _MAX_OFFSET)
    return found


def _searched(name: str) -> bytes | None:
    text = text_of(name)
    return text.encode("utf-8", "surrogatepass") if text else None


def _directory(collector: Collector, topic: str, partition: int) -> tuple[str, str] | None:
    """Return the leader's host and the directory of a partition on it; None if unknown."""
    for each in collector.seen.topics[topic].partitions:
        if each.partition == partition and each.leader is not None:
            broker = collector.seen.brokers.get(each.leader)
            for directory in collector.seen.directories.get(each.leader, ()):
                held = any(
                    (replica.topic, replica.partition) == (topic, partition)
                    for replica in directory.replicas
                )
                if held and broker is not None:
                    return broker.host, directory.path
    return None


def _local_segments(
    host: str, directory: str, topic: str, partition: int
) -> list[dict[str, Any]] | None:
    if not is_local(host):
        return None
    return segments_of(Path(directory) / f"{topic}-{partition}")


def _sliced(data: bytes) -> Iterator[bytes]:
    for begin in range(0, len(data), _SLICE):
        yield data[begin : begin + _SLICE]
