"""A file system that kills a process at a chosen step, and a load that uses it.

    python -m tests.support.killing STATE OUTPUT ZOOKEEPER TOPIC

Steps are counted over all processes of the load, in the file STATE/steps: before and after every
write, rename, publication and removal. STATE/plan.json names the step and the process that dies.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

from spark_loader import EventTime, Loader, LoadOptions, session
from spark_loader.storage.files import LocalFileSystem
from tests.support.stepped_files import SteppedFileSystem


@dataclass(frozen=True)
class KillingFileSystem(SteppedFileSystem):
    """Is sent to the workers; kills a worker, the driver or its Java machine, or fills the disk."""

    state: str
    inner: LocalFileSystem = field(default_factory=lambda: LocalFileSystem(sync=False))

    def step(self, name: str) -> None:
        state = Path(self.state)
        descriptor = os.open(state / "steps", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, b".")
            number = os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)
        plan = json.loads((state / "plan.json").read_text())
        if number != plan["at"]:
            return
        (state / "fired").write_text(plan["victim"])
        if plan["victim"] == "disk":
            raise OSError(28, "No space left on device")
        pids = json.loads((state / "pids.json").read_text())
        if plan["victim"] == "worker" and os.getpid() == pids["driver"]:
            return
        if plan["victim"] == "broker":
            # The load goes on, or fails, without it.
            os.kill(pids["broker"], signal.SIGKILL)
            return
        if plan["victim"] == "driver":
            os.kill(pids["driver"], signal.SIGKILL)
        elif plan["victim"] == "executor":
            os.kill(pids["java"], signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def options(output: str, zookeeper: str, topic: str) -> LoadOptions:
    return LoadOptions(
        zookeeper=zookeeper,
        topics=(topic,),
        output=output,
        group="lake",
        event_time=EventTime.access_log(),
    )


def arm(state: Path, at: int, victim: str, **pids: int) -> None:
    """Prepare STATE: `victim` is killed at step `at` (0: never)."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "steps").write_bytes(b"")
    (state / "fired").unlink(missing_ok=True)
    (state / "plan.json").write_text(json.dumps({"at": at, "victim": victim}))
    (state / "pids.json").write_text(json.dumps(pids))


def main(state: str, output: str, zookeeper: str, topic: str) -> None:
    spark = session("local[2,4]")
    pids = {"driver": os.getpid(), "java": spark.sparkContext._gateway.proc.pid}
    (Path(state) / "pids.json").write_text(json.dumps(pids))
    filesystem = KillingFileSystem(state)
    Loader(options(output, zookeeper, topic), filesystem=filesystem).run(spark)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
