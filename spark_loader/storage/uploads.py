"""Shared by file systems over a network: files uploaded when complete, and renewed locks.

Invariant: a file is visible only when it is complete.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UploadedFile:
    """A file written locally and copied when it is complete; see `files.OutputFile`.

    Args:
        upload: copies a local file to its place.
    """

    def __init__(self, upload: Callable[[Path], None]) -> None:
        self._upload = upload
        self._file = tempfile.NamedTemporaryFile(prefix="zkbroker-load-")  # noqa: SIM115 - lives on
        self._done = False

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def commit(self) -> None:
        if self._done:
            return
        self._file.flush()
        self._upload(Path(self._file.name))
        self._done = True
        self._file.close()

    def discard(self) -> None:
        if not self._done:
            self._done = True
            self._file.close()


@contextmanager
def renewed(renew: Callable[[], bool], every_s: float) -> Iterator[None]:
    """Call `renew` again and again in the background, until it returns False."""
    released = threading.Event()

    def keep() -> None:
        while not released.wait(every_s) and renew():
            pass

    thread = threading.Thread(target=keep, name="load-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        released.set()
        thread.join()
