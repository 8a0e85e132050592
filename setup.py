"""The optional C twins of hot loops; everything else is said in pyproject.toml.

Without a compiler the installation goes on without them, and the same functions run in Python.
"""

from pathlib import Path

from setuptools import Extension, setup


def twin(room: str, *headers: str) -> Extension:
    """The twin of a room, made of the sources in its directory `speedups`."""
    sources = Path("zkbroker") / room / "speedups"
    return Extension(
        f"zkbroker.{room}._speedups",
        sorted(str(path) for path in sources.glob("*.c")),
        depends=[str(sources / header) for header in headers],
        optional=True,
    )


setup(ext_modules=[twin("records", "speedups.h", "walk.h"), twin("protocol"), twin("producer")])
