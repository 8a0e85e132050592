"""What happens to a lake in its life, in a process that may be killed at any step of it.

    python -m tests.support.lake_story STATE OUTPUT ZOOKEEPER TOPIC TABLE

Two loads, an optimize, of Delta a vacuum; whatever was done before is not done twice.
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


def story(
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
    story(filesystem, output, zookeeper, topic, table)


if __name__ == "__main__":
    main(*sys.argv[1:])
