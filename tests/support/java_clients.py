"""Genuine Java clients: where their jars are, and how a program of `tests/interop/java` runs.

`make java-clients` fetches them; each release of kafka-clients has a folder of its own, named by
its version, with all that it needs. `ZKBROKER_JAVA_CLIENTS` names another place laid out so.
"""

import fcntl
import functools
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).parents[1] / "interop" / "java"
PLACE = Path(
    os.environ.get("ZKBROKER_JAVA_CLIENTS") or Path(sys.executable).parent.parent / "java-clients"
)
OLD = "0.8.2.2"
"""The release with servers, tools and the consumers of ZooKeeper groups."""

# No time for the second compiler, no threads for the collector, and no proof that the classes of a
# release are sound, which takes a third of a start.
_SHORT_RUN = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)

REASON = "the genuine Java clients are not here: make java-clients"


def versions() -> list[str]:
    """The releases of kafka-clients that are here, without the old one, the newest last."""
    if not PLACE.is_dir():
        return []
    found = [each.name for each in PLACE.iterdir() if re.fullmatch(r"\d+(\.\d+)+", each.name)]
    return sorted((v for v in found if v != OLD), key=lambda v: [int(n) for n in v.split(".")])


def version_parameters() -> list[Any]:
    """Return the versions as parameters of a test; only the newest one is outside the soak run."""
    known = versions()
    return [pytest.param(v, marks=[] if v == known[-1] else [pytest.mark.soak]) for v in known]


def old_missing() -> bool:
    """Whether release 0.8.2.2 is not here."""
    return not (PLACE / OLD).is_dir()


def jars(version: str) -> str:
    """The class path of a release."""
    return str(PLACE / version / "*")


@functools.cache
def compiled(program: str, version: str) -> str:
    """Compile a program against a release and return the class path to run it with.

    The classes stay beside the jars for later runs, until a source changes.

    Raises:
        AssertionError: it does not compile.
    """
    sources = b"".join(each.read_bytes() for each in sorted(SOURCES.glob("*.java")))
    kept = PLACE.with_name("java-classes") / f"{zlib.crc32(sources):08x}" / version / program
    kept.parent.mkdir(parents=True, exist_ok=True)
    with (kept.parent / f"{program}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=kept.parent) as made:
                _compile(program, version, Path(made) / program)
                (Path(made) / program).rename(kept)
    return f"{kept}{os.pathsep}{jars(version)}"


def _compile(program: str, version: str, folder: Path) -> None:
    source = (SOURCES / f"{program}.java").read_text()
    if tuple(map(int, version.split("."))) >= (4, 2):
        # The classes that read segments moved there.
        source = source.replace("kafka.common.record.", "kafka.common.record.internal.")
    moved = folder / "src" / f"{program}.java"
    moved.parent.mkdir(parents=True)
    moved.write_text(source)
    options = ["-nowarn", "-Xlint:-removal", "-Xlint:-deprecation", "-sourcepath", str(SOURCES)]
    done = subprocess.run(
        [
            "javac",
            *(f"-J{each}" for each in _SHORT_RUN),
            *options,
            "-cp",
            jars(version),
            "-d",
            str(folder),
            str(moved),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def command(program: str, version: str, *arguments: str) -> list[str]:
    """The command that runs a program; compiles it first."""
    return [*_java(), "-cp", compiled(program, version), program, *arguments]


def tool_command(main_class: str, *arguments: str, java: Sequence[str] = ()) -> list[str]:
    """The command that runs a tool of release 0.8.2.2 itself.

    Args:
        main_class: of the tool.
        arguments: its own.
        java: options of Java in place of those for short runs.
    """
    start = ["java", *java] if java else _java()
    return [*start, "-cp", jars(OLD), main_class, *arguments]


def _java() -> list[str]:
    return ["java", *_SHORT_RUN, "-Xmx512m"]


def run(arguments: list[str], *, text: str = "", timeout_s: float = 300) -> str:
    """Run a command and return its standard output.

    Raises:
        AssertionError: it failed; with what it wrote.
    """
    done = subprocess.run(
        arguments, input=text, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
