"""Quarantine: records set aside verbatim, with offset and reason, to be replayed.

{"topic": …, "partition": …, "offset": …, "key": base64, "value": base64, …, "reason": …}
{"topic": …, "partition": …, "offset": …, "until": …, "entry": base64, "reason": …}  damaged

A message of Kafka 0.7 has the "position" of its entry too.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_loader.errors import QuarantineLimit
from spark_loader.json_codec import to_json
from spark_loader.lake.ledger import DataFile
from spark_loader.lake.table_files import STATE
from spark_loader.reading.columns import POSITION
from spark_loader.reading.damage import DamagedEntry
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.runs import joined
from spark_loader.sink.rows import times_as_ms, to_base64
from spark_loader.storage.files import HashingFile, LakeFileSystem, file_name, join


@dataclass(eq=False)
class Quarantine:
    """Sets records of a partition aside verbatim, one JSON object per line.

    Attributes:
        limit: records that its mapper may set aside; None for any number.
        before: records that the mapper has set aside of other partitions.
    """

    filesystem: LakeFileSystem
    output: str
    source: TopicPartition
    staging: str
    token: str
    limit: int | None
    before: int = 0
    count: int = field(default=0, init=False)
    files: list[DataFile] = field(default_factory=list, init=False)
    _lines: list[tuple[int, int, bytes]] = field(default_factory=list, init=False)
    _offsets: list[tuple[int, int]] = field(default_factory=list, init=False)
    _until: int = field(default=0, init=False)

    def add(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> None:
        """Set rows aside, by index; raise QuarantineLimit when there are too many."""
        for index in sorted(reasons):
            row = times_as_ms(batch.slice(index, 1)).to_pylist()[0]
            headers = [
                {"key": each["key"], "value": to_base64(each["value"])}
                for each in row.get("headers") or ()
            ]
            content = {
                "topic": self.source.topic,
                "partition": to_json(self.source.partition),
                "offset": row["offset"],
                "timestamp": row["timestamp"],
                "timestampType": row["timestampType"],
                "key": to_base64(row["key"]),
                "value": to_base64(row["value"]),
                "headers": headers,
                "reason": reasons[index],
            }
            if POSITION in row:
                content[POSITION] = row[POSITION]
                self._append(content, row[POSITION], row["offset"])
            else:
                self._append(content, row["offset"], row["offset"] + 1)

    def add_damaged(self, entry: DamagedEntry) -> None:
        """Set aside an entry of the log that cannot be decoded."""
        content = {
            "topic": self.source.topic,
            "partition": to_json(self.source.partition),
            "offset": entry.start,
            "until": entry.until,
            "entry": to_base64(entry.raw),
            "reason": entry.reason,
        }
        self._append(content, entry.start, entry.until)

    def _append(self, content: dict[str, Any], start: int, until: int) -> None:
        line = json.dumps(content, ensure_ascii=False).encode() + b"\n"
        self._lines.append((start, until, line))
        self._until = max(self._until, until, start + 1)
        if until > start:
            self._offsets.append((start, until))
        self.count += 1
        if self.limit is not None and self.before + self.count > self.limit:
            raise QuarantineLimit(
                f"more than {self.limit} records of one mapper could not be parsed; the last one, "
                f"{self.source} at offset {start}: {content['reason']}. Correct the options of "
                "event time or columns, or allow more with --max-quarantined"
            )

    def finish(self) -> None:
        """Write the quarantine file, if there is anything to write."""
        if not self._lines:
            return
        # Bad values of a batch are set aside before its rows without a time, and damaged entries of
        # a replay before its rows.
        self._lines.sort(key=lambda line: line[:2])
        start, until = self._lines[0][0], self._until
        name = file_name(self.source, start, until, self.token, "jsonl")
        directory = f"{STATE}/quarantine/topic={self.source.topic}"
        staged = f"{self.staging}/{self.token}+{self.source}+quarantine"
        output = self.filesystem.create(join(self.output, staged))
        sink = HashingFile(output)
        sink.write(b"".join(line for _, _, line in self._lines))
        output.commit()
        self.files.append(
            DataFile(
                path=f"{directory}/{name}",
                staged=staged,
                topic=self.source.topic,
                partition=self.source.partition,
                start=start,
                until=until,
                rows=self.count,
                size_bytes=sink.size_bytes,
                sha256=sink.sha256,
                offsets=tuple(joined(self._offsets)),
            )
        )
        self._lines.clear()
