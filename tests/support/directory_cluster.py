"""A cluster in a directory for the loader: each partition is a file of message sets."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.positions import TopicPartition, flat_numbers, partition_numbers
from spark_loader.reading.reader import Fetched, PendingFetch
from tests.support.transactional import TransactionalLog
from zkbroker.errors import OffsetOutOfRange, UnknownTopicOrPartition
from zkbroker.records import Codec, MessageSetBuilder, iter_entries, iter_records


@dataclass(frozen=True)
class DirectoryCluster:
    """Serves as `Access`; picklable, and read afresh by every process."""

    path: str

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        *,
        magic: int = 2,
        codec: Codec = Codec.NONE,
        per_batch: int = 100,
        timestamp_ms: int | None = 1_431_857_103_000,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[tuple[tuple[str, bytes | None], ...]] | None = None,
    ) -> None:
        file = self._file(topic, partition)
        file.parent.mkdir(parents=True, exist_ok=True)
        end = self.end(topic, partition) if file.exists() else 0
        with file.open("ab") as out:
            for first in range(0, len(values), per_batch):
                builder = MessageSetBuilder(magic, codec)
                for index in range(first, min(first + per_batch, len(values))):
                    builder.append(
                        keys[index] if keys else None,
                        values[index],
                        timestamp_ms,
                        headers[index] if headers else (),
                    )
                out.write(builder.build(end))
                end += builder.count
        starts = self._starts()
        starts.setdefault(TopicPartition(topic, partition), 0)
        self._write(starts)

    def store(self, topic: str, partition: int, log: TransactionalLog) -> None:
        """Hold a log of transactions; may be called again as it grows."""
        file = self._file(topic, partition)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(entry for _, entry in log.entries))
        found = {"stable": log.stable, "aborted": log.aborted}
        file.with_suffix(".json").write_text(json.dumps(found))
        self._write({**self._starts(), TopicPartition(topic, partition): 0})

    def transactions(self, source: TopicPartition) -> tuple[int, list[tuple[int, int, int]]]:
        """Return the last stable offset, and producer, first offset and marker of what aborted."""
        file = self._file(*source).with_suffix(".json")
        if not file.exists():
            return self.end(*source), []
        found = json.loads(file.read_text())
        return found["stable"], [tuple(each[:3]) for each in found["aborted"]]

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        starts = self._starts()
        starts[TopicPartition(topic, partition)] = offset
        self._write(starts)

    def end(self, topic: str, partition: int) -> int:
        end = 0
        for entry in iter_entries(self._file(topic, partition).read_bytes()):
            end = entry.last_offset + 1
        return end

    def start(self, topic: str, partition: int) -> int:
        return self._starts()[TopicPartition(topic, partition)]

    def view(self, connect: ConnectOptions | None) -> "DirectoryView":
        return DirectoryView(self, _committed(connect))

    def fetcher(self, connect: ConnectOptions | None) -> "DirectoryFetcher":
        return DirectoryFetcher(self, _committed(connect))

    def _file(self, topic: str, partition: int) -> Path:
        return Path(self.path) / topic / f"{partition}.log"

    def _starts(self) -> dict[TopicPartition, int]:
        path = Path(self.path) / "starts.json"
        return flat_numbers(json.loads(path.read_text())) if path.exists() else {}

    def _write(self, starts: Mapping[TopicPartition, int]) -> None:
        (Path(self.path) / "starts.json").write_text(json.dumps(partition_numbers(starts)))


def _committed(connect: ConnectOptions | None) -> bool:
    return connect is not None and connect.read_committed


@dataclass
class DirectoryView:
    _cluster: DirectoryCluster
    _read_committed: bool

    @property
    def _groups(self) -> Path:
        return Path(self._cluster.path) / "groups.json"

    def bootstrap(self) -> tuple[str, ...]:
        return ("127.0.0.1:1",)

    def topics(self) -> list[str]:
        return sorted(each.name for each in Path(self._cluster.path).iterdir() if each.is_dir())

    def partitions(self, topic: str) -> list[int]:
        directory = Path(self._cluster.path) / topic
        if not directory.is_dir():
            raise UnknownTopicOrPartition(topic)
        return sorted(int(each.stem) for each in directory.glob("*.log"))

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._cluster.start(*tp) for tp in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if self._read_committed:
            return {tp: self._cluster.transactions(tp)[0] for tp in partitions}
        return self.log_ends(partitions)

    def log_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._cluster.end(*tp) for tp in partitions}

    def at_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for tp, time_ms in times_ms.items():
            data = self._cluster._file(*tp).read_bytes()
            newer = (each.offset for each in iter_records(data) if each.timestamp >= time_ms)
            found[tp] = next(newer, None)
        return found

    def last_cut(self, source: TopicPartition, start: int, wanted: int) -> int:
        return wanted

    def cuts(self, source: TopicPartition) -> list[int] | None:
        return None

    def record_bytes(self, source: TopicPartition, offset: int) -> float:
        size = self._cluster._file(*source).stat().st_size
        return size / max(1, self._cluster.end(*source))

    def created_ms(self, topics: Sequence[str]) -> dict[str, int]:
        known = Path(self._cluster.path) / "created.json"
        found = json.loads(known.read_text()) if known.exists() else {}
        return {topic: found[topic] for topic in topics if topic in found}

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._groups.write_text(json.dumps({group: partition_numbers(offsets)}))

    def group_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if not self._groups.exists():
            return {}
        return flat_numbers(json.loads(self._groups.read_text()).get(group, {}))

    def close(self) -> None:
        pass


@dataclass
class DirectoryFetcher:
    _cluster: DirectoryCluster
    _read_committed: bool
    _loaded: dict[TopicPartition, tuple[bytes, list[tuple[int, int]]]] = field(default_factory=dict)

    def send(self, source: TopicPartition, offset: int, max_bytes: int) -> PendingFetch:
        return partial(self.answer, source, offset, max_bytes)

    def answer(self, source: TopicPartition, offset: int, max_bytes: int) -> Fetched:
        if source not in self._loaded:
            if not self._cluster._file(*source).exists():
                raise UnknownTopicOrPartition(f"{source} does not exist")
            data = self._cluster._file(*source).read_bytes()
            index = [(each.last_offset, each.position) for each in iter_entries(data)]
            self._loaded[source] = (data, index)
        data, index = self._loaded[source]
        end = index[-1][0] + 1 if index else 0
        start = self._cluster.start(*source)
        if not start <= offset <= end:
            raise OffsetOutOfRange(earliest=start, latest=end)
        stable, aborted = self._cluster.transactions(source)
        shown = stable if self._read_committed else end
        of_fetch: list[tuple[int, int]] = []
        if self._read_committed:
            of_fetch = [(id_, first) for id_, first, marker in aborted if marker >= offset]
        stop = next((position for last, position in index if last >= shown), len(data))
        for last, position in index:
            if last >= offset:
                part = data[position : min(position + max_bytes, stop)]
                return Fetched(part, end, of_fetch, stable if self._read_committed else None)
        return Fetched(b"", end, (), stable if self._read_committed else None)

    def close(self) -> None:
        pass
