"""A lake's file system that reports a step before and after each change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_loader.storage.files import LakeFileSystem, OutputFile
from spark_loader.storage.table_log import TableLog


class SteppedFileSystem:
    """Passes every call to `inner`; calls `step` before and after those that change something.

    Attributes:
        dead: whether the process is taken for dead, so that it cleans nothing up.
    """

    inner: LakeFileSystem
    dead = False

    def step(self, name: str) -> None:
        """Act at a step, such as `before rename` or `after publish plan.json`."""

    def around(self, name: str, action: Callable[[], Any]) -> Any:
        self.step(f"before {name}")
        result = action()
        self.step(f"after {name}")
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def create(self, path: str) -> "SteppedOutput":
        return SteppedOutput(self, self.around("create", lambda: self.inner.create(path)))

    def publish(self, path: str, data: bytes) -> bool:
        name = f"publish {Path(path).name}"
        return bool(self.around(name, lambda: self.inner.publish(path, data)))

    def replace(self, path: str, data: bytes) -> None:
        self.around(f"replace {Path(path).name}", lambda: self.inner.replace(path, data))

    def rename(self, source: str, target: str) -> None:
        self.around("rename", lambda: self.inner.rename(source, target))

    def delete(self, path: str) -> None:
        self.around("delete", lambda: self.inner.delete(path))

    def table_log(self, output: str) -> TableLog:
        return SteppedLog(self, self.inner.table_log(output))


class SteppedLog(TableLog):
    def __init__(self, filesystem: SteppedFileSystem, inner: TableLog) -> None:
        super().__init__(inner.uri, inner.options)
        self._fs = filesystem
        self.pull = inner.pull  # type: ignore[method-assign]
        self.fetch = inner.fetch  # type: ignore[method-assign]
        self.forget = inner.forget  # type: ignore[method-assign]
        self._commit = inner.commit

    def commit(self, write: Callable[[], int]) -> int:
        return int(self._fs.around("commit of the table", lambda: self._commit(write)))


class SteppedOutput:
    def __init__(self, filesystem: SteppedFileSystem, inner: OutputFile) -> None:
        self._fs = filesystem
        self._inner = inner

    def write(self, data: bytes) -> int:
        return int(self._fs.around("write", lambda: self._inner.write(data)))

    def commit(self) -> None:
        self._fs.around("commit", self._inner.commit)

    def discard(self) -> None:
        if not self._fs.dead:
            self._inner.discard()
