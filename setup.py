"""The optional C twin of the record loops; everything else is said in pyproject.toml.

Without a compiler the installation goes on without it, and the same loops run in Python.
"""

from pathlib import Path

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "zkbroker.records._speedups",
            sorted(str(path) for path in Path("zkbroker/records/speedups").glob("*.c")),
            depends=["zkbroker/records/speedups/speedups.h", "zkbroker/records/speedups/walk.h"],
            optional=True,
        )
    ]
)
