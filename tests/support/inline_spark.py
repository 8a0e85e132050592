"""What a load needs of a Spark session, done at once in this process, with crashes at will."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spark_loader.storage.files import FileStatus, LakeFileSystem, OutputFile
from spark_loader.storage.table_log import TableLog


class InlineSpark:
    """Runs tasks one after the other."""

    def __init__(self) -> None:
        self.sparkContext = self

    def getConf(self) -> dict[str, str]:
        return {}

    def setJobDescription(self, text: str) -> None:
        pass

    def parallelize(self, tasks: list[Any], slices: int) -> "InlineSpark":
        self._tasks = tasks
        return self

    def map(self, function: Callable[[Any], Any]) -> "InlineSpark":
        self._function = function
        return self

    def collect(self) -> list[Any]:
        return [self._function(task) for task in self._tasks]


class Crash(BaseException):
    """The process is gone: nothing may catch this, as nothing outlives kill -9."""


class CrashingFileSystem:
    """Stops at the n-th step, before or after it is done; the file system stays as it was then."""

    def __init__(
        self, inner: LakeFileSystem, at: int = -1, error: type[BaseException] = Crash
    ) -> None:
        self._inner = inner
        self._at = at
        self._error = error
        self.steps: list[str] = []
        self.dead = False

    def _step(self, name: str) -> None:
        if self.dead and self._error is Crash:
            raise Crash(name)
        self.steps.append(name)
        if len(self.steps) - 1 == self._at:
            self.dead = True
            raise self._error(28, f"stopped at {name}")

    def _around(self, name: str, action: Callable[[], Any]) -> Any:
        self._step(f"before {name}")
        result = action()
        self._step(f"after {name}")
        return result

    def create(self, path: str) -> OutputFile:
        return CrashingOutput(self, self._around("create", lambda: self._inner.create(path)))

    def publish(self, path: str, data: bytes) -> bool:
        name = f"publish {Path(path).name}"
        return bool(self._around(name, lambda: self._inner.publish(path, data)))

    def replace(self, path: str, data: bytes) -> None:
        self._around(f"replace {Path(path).name}", lambda: self._inner.replace(path, data))

    def rename(self, source: str, target: str) -> None:
        self._around("rename", lambda: self._inner.rename(source, target))

    def delete(self, path: str) -> None:
        self._around("delete", lambda: self._inner.delete(path))

    def read(self, path: str) -> bytes:
        return self._inner.read(path)

    def opened(self, path: str) -> contextlib.AbstractContextManager[Path]:
        return self._inner.opened(path)

    def size(self, path: str) -> int | None:
        return self._inner.size(path)

    def names(self, path: str) -> list[str]:
        return self._inner.names(path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        return self._inner.walk(path)

    def lock(self, path: str, owner: str) -> contextlib.AbstractContextManager[None]:
        return self._inner.lock(path, owner)

    def table_log(self, output: str) -> TableLog:
        return CrashingLog(self, self._inner.table_log(output))


class CrashingLog:
    def __init__(self, filesystem: CrashingFileSystem, inner: TableLog) -> None:
        self._fs = filesystem
        self._inner = inner
        self.uri = inner.uri
        self.options = inner.options

    def pull(self) -> None:
        self._inner.pull()

    def fetch(self, paths: list[str]) -> None:
        self._inner.fetch(paths)

    def commit(self, write: Callable[[], int]) -> int:
        return int(self._fs._around("commit of the table", lambda: self._inner.commit(write)))


class CrashingOutput:
    def __init__(self, filesystem: CrashingFileSystem, inner: OutputFile) -> None:
        self._fs = filesystem
        self._inner = inner

    def write(self, data: bytes) -> int:
        return int(self._fs._around("write", lambda: self._inner.write(data)))

    def commit(self) -> None:
        self._fs._around("commit", self._inner.commit)

    def discard(self) -> None:
        if not self._fs.dead:
            self._inner.discard()
