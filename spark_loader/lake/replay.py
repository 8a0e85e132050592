"""Replays quarantined records: those that get an event time now become data.

    quarantine files ─▶ records ─▶ sink ─▶ data files + quarantine files ─▶ offsets
      ─▶ commit

Invariant: a replay is a commit like any other. Every record it reads is afterwards in exactly one
data file or one quarantine file, and the quarantine files it read are withdrawn.
"""

import base64
import json
import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.evolution import require_fitting
from spark_loader.lake.ledger import DataFile, Entry, MapperOffsets, beside
from spark_loader.lake.recover import publish_replay, recover
from spark_loader.lake.table_files import schema_to_text
from spark_loader.reading.columns import POSITION, arrow_schema
from spark_loader.reading.damage import DamagedEntry
from spark_loader.reading.positions import TopicPartition, partition_from_json
from spark_loader.sink.partition import MapperSink, SinkOptions
from spark_loader.storage.files import join


def replay(
    checkpoints: Checkpoints,
    options: SinkOptions,
    *,
    headers: bool = False,
) -> Entry | None:
    """Replay everything in quarantine; None when there is nothing.

    Args:
        checkpoints: of the output directory.
        options: with the event time to try; records without one go back into quarantine.
        headers: whether the files get a column of headers, as in a load.

    Raises:
        LoadError: a run is unfinished.
    """
    recover(checkpoints)
    if checkpoints.unfinished() is not None:
        raise LoadError("a run is unfinished: run the load again to finish it, then replay")
    require_fitting(checkpoints, options.columns)
    _, quarantined = beside(checkpoints.table.entries())
    if not quarantined:
        return None
    run = checkpoints.next_run()
    token = f"{run:06d}-replay-{uuid.uuid4().hex[:8]}"
    unlimited = replace(options, max_quarantined=None)
    sink = MapperSink(
        checkpoints.filesystem, checkpoints.output, checkpoints.staging(run), token, unlimited
    )
    by_source: dict[TopicPartition, list[DataFile]] = {}
    for file in quarantined:
        by_source.setdefault(file.source, []).append(file)
    for source, found in sorted(by_source.items()):
        sink.begin(source)
        records = sorted(_records(checkpoints, found), key=lambda r: r["offset"])
        for record in records:
            if "entry" in record:
                raw = base64.b64decode(record["entry"])
                sink.add_damaged(
                    DamagedEntry(record["offset"], record["until"], raw, record["reason"])
                )
        parsable = [_row(record) for record in records if "entry" not in record]
        if parsable:
            schema = arrow_schema(headers=headers, positions=POSITION in parsable[0])
            columns = {name: [row.get(name) for row in parsable] for name in schema.names}
            sink.write(pa.RecordBatch.from_pydict(columns, schema=schema))
    sink.finish()
    done = MapperOffsets(
        run=run,
        mapper=0,
        attempt=token,
        ranges=(),
        tabled=tuple(sink.tabled),
        schema=schema_to_text(sink.schema),
        files=tuple(sink.files),
        quarantined=tuple(sink.quarantined),
        rows=sink.rows,
    )
    if not checkpoints.write_mapper_offsets(done):
        raise LoadError("another replay of this directory is running")
    entry = publish_replay(checkpoints, done)
    recover(checkpoints)
    return entry


def _records(checkpoints: Checkpoints, files: Iterable[DataFile]) -> Iterable[dict[str, Any]]:
    for file in files:
        for line in checkpoints.filesystem.read(join(checkpoints.output, file.path)).splitlines():
            yield json.loads(line)


def _row(record: dict[str, Any]) -> dict[str, Any]:
    headers = [{"key": each["key"], "value": _bytes(each["value"])} for each in record["headers"]]
    return {
        "key": _bytes(record["key"]),
        "value": _bytes(record["value"]),
        "topic": record["topic"],
        "partition": int(partition_from_json(record["partition"])),
        **({POSITION: record[POSITION]} if POSITION in record else {}),
        "offset": record["offset"],
        "timestamp": record["timestamp"] * 1000,
        "timestampType": record["timestampType"],
        "headers": headers or None,
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
