"""The part of a Spark session that a load uses, in this process; and crashes at chosen steps."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from spark_loader.storage.files import LakeFileSystem
from tests.support.stepped_files import SteppedFileSystem


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


class CrashingFileSystem(SteppedFileSystem):
    """Fails at one step; the inner file system stays as it was then.

    Args:
        inner: the file system.
        at: number of the step, or its name; by default none fails.
        error: what is raised; after a `Crash` every later change fails as well.

    Attributes:
        steps: the names of the steps so far.
    """

    def __init__(
        self, inner: LakeFileSystem, at: int | str = -1, error: type[BaseException] = Crash
    ) -> None:
        self.inner = inner
        self.steps: list[str] = []
        self._at = at
        self._error = error

    def step(self, name: str) -> None:
        if self.dead and self._error is Crash:
            raise Crash(name)
        self.steps.append(name)
        if self._at in (len(self.steps) - 1, name):
            self.dead = True
            raise self._error(28, f"stopped at {name}")


def crashes(
    work: Callable[[CrashingFileSystem], object],
    inner: LakeFileSystem,
    *,
    least: int,
    every: int = 1,
) -> Iterator[None]:
    """Repeat some work with a crash before a later change each time, until it ends without one.

    The disk is the same after a change and before the next one, so only the latter is tried.

    Args:
        work: is given the file system that crashes.
        inner: the file system below.
        least: how many crashes there have to be.
        every: how many changes lie between two crashes.

    Yields:
        after each crash.
    """
    for number in itertools.count():
        crashing = CrashingFileSystem(inner, 2 * every * number)
        try:
            work(crashing)
        except Crash:
            assert crashing.steps[-1].startswith("before")
            yield
        else:
            assert number >= least
            return
