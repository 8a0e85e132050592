"""Runs of random operations, one for each seed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def work_of_seed(directory: Path, seed: int) -> Iterator[Path]:
    """A directory for the run of a seed, removed after success; a failure names the seed."""
    work = directory / str(seed)
    work.mkdir()
    try:
        yield work
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    shutil.rmtree(work)


def run_and_check(run: Any) -> None:
    """Run operations until the power cut of `run.fs`, and check what survived."""
    try:
        run.run()
        run.check()
    finally:
        run.fs.close_all()
