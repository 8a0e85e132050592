"""kafka-python in this process.

It reads its message descriptions, a hundred files, by a function that Python 3.11 and 3.12 warn of
at each call; here it is given what that warning names instead. Remove this once kafka-python does
not call `importlib.resources.read_text`.
"""

import importlib.resources
from unittest import mock


def _read_text(package: str, resource: str) -> str:
    return importlib.resources.files(package).joinpath(resource).read_text(encoding="utf-8")


with mock.patch.object(importlib.resources, "read_text", _read_text):
    import kafka

__all__ = ["kafka"]
