"""A file system that kills a process at a chosen step, and a load that uses it.

    python -m tests.support.killing STATE OUTPUT ZOOKEEPER TOPIC

Steps are counted over all processes of the load, in the file STATE/steps: before and after every
write, rename, publication and removal. STATE/plan.json has the step and the process that dies.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_loader import EventTime, Loader, LoadOptions, session
from spark_loader.storage.files import FileStatus, LocalFileSystem, OutputFile
from spark_loader.storage.table_log import LocalTableLog, TableLog


@dataclass(frozen=True)
class KillingFileSystem:
    """Is sent to workers; kills a worker, the driver or its Java machine, or fills the disk."""

    state: str
    inner: LocalFileSystem = field(default_factory=lambda: LocalFileSystem(sync=False))

    def _step(self) -> None:
        state = Path(self.state)
        descriptor = os.open(state / "steps", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, b".")
            number = os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)
        plan = json.loads((state / "plan.json").read_text())
        if number != plan["at"]:
            return
        (state / "fired").write_text(plan["victim"])
        if plan["victim"] == "disk":
            raise OSError(28, "No space left on device")
        pids = json.loads((state / "pids.json").read_text())
        if plan["victim"] == "worker" and os.getpid() == pids["driver"]:
            return
        if plan["victim"] == "broker":
            # The load goes on, or fails, without it.
            os.kill(pids["broker"], signal.SIGKILL)
            return
        if plan["victim"] == "driver":
            os.kill(pids["driver"], signal.SIGKILL)
        elif plan["victim"] == "executor":
            os.kill(pids["java"], signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, action: Callable[[], Any]) -> Any:
        self._step()
        result = action()
        self._step()
        return result

    def create(self, path: str) -> OutputFile:
        return KillingOutput(self, self._around(lambda: self.inner.create(path)))

    def publish(self, path: str, data: bytes) -> bool:
        return bool(self._around(lambda: self.inner.publish(path, data)))

    def replace(self, path: str, data: bytes) -> None:
        self._around(lambda: self.inner.replace(path, data))

    def rename(self, source: str, target: str) -> None:
        self._around(lambda: self.inner.rename(source, target))

    def delete(self, path: str) -> None:
        self._around(lambda: self.inner.delete(path))

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def opened(self, path: str) -> contextlib.AbstractContextManager[Path]:
        return self.inner.opened(path)

    def size(self, path: str) -> int | None:
        return self.inner.size(path)

    def names(self, path: str) -> list[str]:
        return self.inner.names(path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        return self.inner.walk(path)

    def lock(self, path: str, owner: str) -> contextlib.AbstractContextManager[None]:
        return self.inner.lock(path, owner)

    def table_log(self, output: str) -> TableLog:
        return KillingLog(self, self.inner.table_log(output))


@dataclass
class KillingLog:
    filesystem: KillingFileSystem
    inner: LocalTableLog

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def options(self) -> dict[str, str]:
        return self.inner.options

    def pull(self) -> None:
        self.inner.pull()

    def fetch(self, paths: list[str]) -> None:
        self.inner.fetch(paths)

    def commit(self, write: Callable[[], int]) -> int:
        return int(self.filesystem._around(lambda: self.inner.commit(write)))


@dataclass
class KillingOutput:
    filesystem: KillingFileSystem
    inner: OutputFile

    def write(self, data: bytes) -> int:
        return int(self.filesystem._around(lambda: self.inner.write(data)))

    def commit(self) -> None:
        self.filesystem._around(self.inner.commit)

    def discard(self) -> None:
        self.inner.discard()


def options(output: str, zookeeper: str, topic: str) -> LoadOptions:
    return LoadOptions(
        zookeeper=zookeeper,
        topics=(topic,),
        output=output,
        group="lake",
        event_time=EventTime.access_log(),
    )


def arm(state: Path, at: int, victim: str, **pids: int) -> None:
    """Prepare STATE so that `victim` dies at step `at` (0: never)."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "steps").write_bytes(b"")
    (state / "fired").unlink(missing_ok=True)
    (state / "plan.json").write_text(json.dumps({"at": at, "victim": victim}))
    (state / "pids.json").write_text(json.dumps(pids))


def main(state: str, output: str, zookeeper: str, topic: str) -> None:
    spark = session("local[2,4]")
    pids = {"driver": os.getpid(), "java": spark.sparkContext._gateway.proc.pid}
    (Path(state) / "pids.json").write_text(json.dumps(pids))
    filesystem = KillingFileSystem(state)
    Loader(options(output, zookeeper, topic), filesystem=filesystem).run(spark)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
