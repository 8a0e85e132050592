"""The fast path into the send queue: in C where the extension was built, else in Python.

`ZKBROKER_PURE_PYTHON=1` in the environment chooses Python; `NATIVE` tells which one is used. The
invariants of both are in `portable.py`.
"""

import os

try:
    if os.environ.get("ZKBROKER_PURE_PYTHON", "0") not in ("", "0"):
        raise ImportError("plain Python is asked for")
    from zkbroker.producer._speedups import Intake

    NATIVE = True
except ImportError:
    from zkbroker.producer.portable import Intake

    NATIVE = False

__all__ = ["NATIVE", "Intake"]
