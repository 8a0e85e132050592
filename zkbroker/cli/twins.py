"""Warns when a broker runs without the C twins of its hot loops.

Invariant: there is no warning if `ZKBROKER_PURE_PYTHON` asks for Python.
"""

import logging
import os

from zkbroker.protocol import plain
from zkbroker.records import kernels

logger = logging.getLogger(__name__)


def missing_twins() -> list[str]:
    """Return the tasks that run in slower Python because their C twin was not built."""
    if os.environ.get("ZKBROKER_PURE_PYTHON", "0") not in ("", "0"):
        return []
    twins = {
        "appends and compaction": kernels.NATIVE,
        "requests of producers and consumers": plain.NATIVE,
    }
    return [what for what, native in twins.items() if not native]


def warn_of_missing_twins() -> None:
    """Log one WARNING that names the slower tasks and the remedy, if there are any."""
    if missing := missing_twins():
        logger.warning(
            "C extensions are missing, so that these run in Python and are slower: %s. Install"
            " zkbroker again where a C compiler and Python's headers are (on Debian: gcc,"
            " python3-dev); ZKBROKER_PURE_PYTHON=1 says that Python is wanted",
            "; ".join(missing),
        )
