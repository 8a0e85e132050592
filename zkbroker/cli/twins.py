"""Whether a broker uses the C twins of its hot loops, in words for a log.

Invariant: nothing is said of Python that was asked for by `ZKBROKER_PURE_PYTHON`.
"""

import logging
import os

from zkbroker.protocol import plain
from zkbroker.records import kernels

logger = logging.getLogger(__name__)


def missing_twins() -> list[str]:
    """Return what runs in Python, and is slower, because its C twin was not built."""
    if os.environ.get("ZKBROKER_PURE_PYTHON", "0") not in ("", "0"):
        return []
    twins = {
        "appends and compaction": kernels.NATIVE,
        "requests of producers and consumers": plain.NATIVE,
    }
    return [what for what, native in twins.items() if not native]


def warn_of_missing_twins() -> None:
    """Log one WARNING with what is slower and what to do about it, if there is anything."""
    if missing := missing_twins():
        logger.warning(
            "C extensions are missing, so that these run in Python and are slower: %s. Install"
            " zkbroker again where a C compiler and Python's headers are (on Debian: gcc,"
            " python3-dev); ZKBROKER_PURE_PYTHON=1 says that Python is wanted",
            "; ".join(missing),
        )
