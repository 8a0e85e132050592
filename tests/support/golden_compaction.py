"""Compacted topics of genuine brokers, before and after cleaning."""

import functools
import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.logs import make_manager
from zkbroker.log import LogManager, TopicPartition
from zkbroker.log.cleaner import CleanStats, clean, cleanable_part
from zkbroker.log.cleaner.cleaning import PassSettings
from zkbroker.records import EntryInfo, Record, iter_entries, iter_records

ARCHIVES = Path(__file__).parent.parent / "golden" / "data" / "compaction"
STAGES = ("1-before", "2-after-once", "3-more-before", "4-after-twice")
SETTINGS = PassSettings(1 << 20, 0.9, 1 << 16)


@functools.cache
def _files(version: str) -> dict[str, bytes]:
    found = {}
    with tarfile.open(ARCHIVES / f"{version}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                found[member.name.removeprefix(f"{version}/")] = file.read()
    return found


def topics(version: str) -> list[str]:
    """Return the topics of a broker version."""
    return sorted({name.split("/")[1][:-2] for name in _files(version) if name.endswith(".log")})


def expected(version: str) -> dict:
    """Return the recorded facts of each topic and stage."""
    return json.loads(_files(version)["expected.json"])


def stage_files(version: str, stage: str, topic: str) -> dict[str, bytes]:
    """Return the files of a topic's partition at a stage, by name."""
    prefix = f"{stage}/{topic}-0/"
    files = _files(version)
    found = {n.removeprefix(prefix): data for n, data in files.items() if n.startswith(prefix)}
    if stage == "3-more-before":
        # Files that did not change since the first cleaning are stored once.
        before = stage_files(version, "2-after-once", topic)
        end = max(int(name[:20]) for name in before if name.endswith(".log"))
        for name, data in before.items():
            if int(name[:20]) < end or name.endswith(".log"):
                found.setdefault(name, data)
    return found


def cleaned_offset(version: str, stage: str, topic: str) -> int | None:
    """Return the cleaner's checkpoint of a topic."""
    text = _files(version).get(f"{stage}/cleaner-offset-checkpoint", b"").decode()
    for line in text.splitlines()[2:]:
        name, _, offset = line.split()
        if name == topic:
            return int(offset)
    return None


def topic_settings(topic: str) -> dict[str, str]:
    """Return the settings with which the topic was created."""
    sizes = {"c-v2-zstd": 3000, "c-v2-full": 20000, "c8-full": 32768, "c-v1-gzip-tomb-drop": 1200}
    sizes |= {"c-v0-tomb-drop": 2500, "c-mixed": 3000, "c-v0-full": 20000}
    size = sizes.get(topic, 6000)
    for part, of_part in (("large", 20000), ("logappend", 3000), ("txn", 1500), ("idem", 1500)):
        if part in topic:
            size = of_part
    if "tomb" in topic and topic not in sizes:
        size = 1500
    retention = 100
    if topic.endswith(("tomb-drop", "idem", "txn")):
        retention = 0
    if topic.endswith("keep") or topic == "c-v2-full":
        retention = 86_400_000
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(size),
        "delete.retention.ms": str(retention),
        "index.interval.bytes": "512",
        "min.cleanable.dirty.ratio": "0",
    }


@dataclass
class Opened:
    """A topic at a stage, in a data directory of its own."""

    manager: LogManager
    tp: TopicPartition

    @property
    def log(self):
        return self.manager.get(self.tp)

    @property
    def directory(self) -> Path:
        return self.log.path

    def clean(self) -> CleanStats:
        """Compact the cleanable part."""
        part = cleanable_part(self.log, self.log.log_end_offset, self.manager._now_ms())
        return clean(part, SETTINGS, keep=lambda: {self.tp})


def open_stage(
    version: str, stage: str, topic: str, root: Path, times: dict[int, float] | None = None
) -> Opened:
    """Write a topic in the state of a stage, and open it.

    Args:
        version: of the broker.
        stage: one of `STAGES`.
        topic: its name.
        root: a new data directory.
        times: base offset to the time of a segment's file (s); others follow their messages.
    """
    tp = TopicPartition(topic, 0)
    directory = root / str(tp)
    directory.mkdir(parents=True)
    for name, data in stage_files(version, stage, topic).items():
        (directory / name).write_bytes(data)
    last = 0.0
    for path in sorted(directory.glob("*.log")):
        newest = max((e.max_timestamp for e in iter_entries(path.read_bytes())), default=-1)
        at = (times or {}).get(int(path.stem), max(newest / 1000, last))
        last = at + 1
        os.utime(path, (at, at))
    end = max(int(path.stem) for path in directory.glob("*.log"))
    for entry in iter_entries((directory / f"{end:020d}.log").read_bytes()):
        end = entry.last_offset + 1
    cleaned = cleaned_offset(version, stage, topic)
    if cleaned is not None:
        text = f"0\n1\n{topic} 0 {cleaned}\n"
        (root / "cleaner-offset-checkpoint").write_text(text)
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {end}\n")
    (root / ".kafka_cleanshutdown").touch()
    manager = make_manager(
        root, overrides={topic: topic_settings(topic)}, manager={"cleaner_enable": False}
    )
    manager.start()
    return Opened(manager, tp)


def entries(data: bytes) -> list[tuple[EntryInfo, list[Record]]]:
    """Return the entries of a segment, without sizes and checksums of compressed ones."""
    found = []
    for entry in iter_entries(data, verify_crc=True):
        raw = data[entry.position : entry.position + entry.size]
        records = [] if entry.is_control else list(iter_records(raw))
        if entry.codec:
            entry = entry._replace(size=0, crc=0)
        found.append((entry._replace(position=0), records))
    return found


def segments(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the segments among files."""
    return {name: data for name, data in files.items() if name.endswith(".log")}
