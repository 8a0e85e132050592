"""Loads, an optimize and a vacuum of a lake, in a process that may be killed at any step.

    python -m tests.support.lake_workload STATE OUTPUT ZOOKEEPER TOPIC TABLE

Two loads, an optimize, and for Delta a vacuum; steps that are done already are not repeated.
"""

import os
import sys
from pathlib import Path

from spark_loader import EventTime, Loader, LoadOptions
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.optimize import optimize, vacuum
from spark_loader.storage.files import LakeFileSystem, LocalFileSystem
from tests.support.inline_spark import InlineSpark
from tests.support.killing import KillingFileSystem


def run_workload(
    filesystem: LakeFileSystem, output: str, zookeeper: str, topic: str, table: str = "delta"
) -> None:
    options = LoadOptions(
        zookeeper=zookeeper,
        topics=(topic,),
        output=output,
        group="lake",
        event_time=EventTime.access_log(),
        max_records=300,
        group_bytes=0,
        table=table,
    )
    for _ in range(2):
        Loader(options, filesystem=filesystem).run(InlineSpark())
    optimize(Checkpoints(filesystem, output))
    if table == "delta":
        vacuum(Checkpoints(filesystem, output), retention_hours=0, allow_short=True)


def main(state: str, output: str, zookeeper: str, topic: str, table: str) -> None:
    pids = Path(state) / "pids.json"
    pids.write_text(pids.read_text().replace('"driver": 0', f'"driver": {os.getpid()}'))
    filesystem = KillingFileSystem(state, LocalFileSystem(sync=False))
    run_workload(filesystem, output, zookeeper, topic, table)


if __name__ == "__main__":
    main(*sys.argv[1:])
