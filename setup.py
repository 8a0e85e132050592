"""The optional C twins of hot loops; everything else is said in pyproject.toml.

Without a compiler the installation goes on without them, says so, and the same functions run in
Python. `ZKBROKER_REQUIRE_C=1` in the environment makes it fail instead: wheels are built so.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SLOWER = {
    "records": "appends, compaction and loads by Spark",
    "protocol": "requests of producers and consumers at brokers",
    "producer": "Producer.send",
}
"""Room → what its twin makes faster."""


def twin(room: str, *headers: str) -> Extension:
    """The twin of a room, made of the sources in its directory `speedups`."""
    sources = Path("zkbroker") / room / "speedups"
    return Extension(
        f"zkbroker.{room}._speedups",
        sorted(str(path) for path in sources.glob("*.c")),
        depends=[str(sources / header) for header in headers],
        optional=os.environ.get("ZKBROKER_REQUIRE_C", "0") in ("", "0"),
    )


class BuildTwins(build_ext):
    """Names what was left out; pip shows it with `-v`, and brokers log it at their start."""

    def run(self) -> None:
        super().run()
        for each in self.extensions:
            if not Path(self.get_ext_fullpath(each.name)).exists():
                self.warn(
                    f"{each.name} was not built: {SLOWER[each.name.split('.')[1]]} will be slower."
                    " It needs a C compiler and Python's headers (on Debian: gcc, python3-dev)"
                )


setup(
    ext_modules=[twin("records", "speedups.h", "walk.h"), twin("protocol"), twin("producer")],
    cmdclass={"build_ext": BuildTwins},
)
