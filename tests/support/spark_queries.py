"""Streaming queries in their own process; the driver is killed, or reads all records and ends.

Invariant: a query is killed after its first batch, anywhere in a later one: planned, half written
or committed.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support import soak

ROOT = Path(__file__).parents[2]
RESTARTS = soak.part_of(10)
"""How often a query is killed."""

_BEGINNING = """
import os, signal, sys, time
from spark_loader import register, session

bootstrap, *topics, place, kill = sys.argv[1:]
spark = session("local[2]")
register(spark)
records = (
    spark.readStream.format("zkbroker")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topics[0])
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 150)
    .load()
)
"""
_END = """
query = query.option("checkpointLocation", place + "/checkpoint")

if kill == "no":
    query.trigger(availableNow=True).start().awaitTermination()
else:
    query = query.start()
    while query.lastProgress is None:
        if not query.isActive:
            sys.exit(str(query.exception()))
        time.sleep(0.02)
    time.sleep(float(kill))
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_query(query: str, bootstrap: str, topics: Sequence[str], place: Path, kill: str) -> None:
    """Run a query over the first of the topics.

    Args:
        query: source that makes the writer `query` of `records`; it may use `topics` and `place`.
        kill: seconds after its first batch, or `no` to let it end by itself.
    """
    source = _BEGINNING + query + _END
    finished = subprocess.run(
        [sys.executable, "-c", source, bootstrap, *topics, str(place), kill],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=900,
        check=False,
    )
    assert finished.returncode == (0 if kill == "no" else -9)
