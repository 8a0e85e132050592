"""A file system on which the first attempt of one mapper is slow to publish its offsets."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_loader.storage.files import LocalFileSystem


@dataclass(frozen=True)
class SlowAttempt:
    """Is pickled to the workers; each attempt makes a file MAPPER-first|copy-won|lost in `state`.

    The first attempt of mapper 0 waits until another one has published, or five minutes.
    """

    state: str
    inner: LocalFileSystem = field(default_factory=LocalFileSystem)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def publish(self, path: str, data: bytes) -> bool:
        target = Path(path)
        if target.parent.name != "offsets":
            return self.inner.publish(path, data)
        first = self._begin(target.stem)
        deadline = time.monotonic() + 300
        while first and target.stem == "00000" and time.monotonic() < deadline:
            if target.exists():
                break
            time.sleep(0.05)
        won = self.inner.publish(path, data)
        turn = "first" if first else "copy"
        Path(self.state, f"{target.stem}-{turn}-{'won' if won else 'lost'}").touch()
        return won

    def _begin(self, mapper: str) -> bool:
        try:
            os.close(os.open(Path(self.state, f"{mapper}-begun"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True
