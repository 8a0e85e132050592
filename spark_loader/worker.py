"""Spark's Python workers: processes that do one task after the other.

Invariant: nothing here changes what a task does, only what stands around it.
"""

import gc
import sys
from functools import cache


@cache
def settle() -> None:
    """Spare this process, if it is a worker, the search of loaded modules for garbage.

    A worker looks for garbage after each task. Among all that pyarrow and pyspark hold, and keep,
    that takes longer than a small task.
    """
    if "pyspark.worker" in sys.modules:
        gc.freeze()
