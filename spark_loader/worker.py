"""Spark's Python workers: processes that run one task after the other.

Invariant: nothing here changes the work of a task.
"""

import gc
import sys
from functools import cache


@cache
def settle() -> None:
    """If this process is a worker, exclude loaded modules from garbage collection.

    A worker collects garbage after each task. With all the objects of pyarrow and pyspark, that
    takes longer than a small task.
    """
    if "pyspark.worker" in sys.modules:
        gc.freeze()
