"""The inner loops of this room: in C if the extension was built, else in Python.

`ZKBROKER_PURE_PYTHON=1` in the environment chooses Python; `NATIVE` tells which is used. `portable`
lists the functions: the extension has a twin of each.
"""

import os

from zkbroker.records.portable import *  # noqa: F403 - its `__all__` lists the names
from zkbroker.records.portable import __all__ as __all__

NATIVE = False
if os.environ.get("ZKBROKER_PURE_PYTHON", "0") in ("", "0"):
    try:
        from zkbroker.records._speedups import *  # noqa: F403 - likewise

        NATIVE = True
    except ImportError:
        pass
