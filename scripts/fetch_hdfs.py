"""Fetches a genuine HDFS for the tests: Hadoop 2.7.3, some 220 MB to download, once.

    python scripts/fetch_hdfs.py FOLDER

The jars come out of the source package of PySpark 2.4.8, the last ones of Python's index that hold
a name node and a data node. Nothing is installed, and only the jars that HDFS needs are kept. The
package's own build is too old for today's tools: pip gets its metadata in a separate environment
with old tools.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

RELEASE = "pyspark==2.4.8"
_WANTED = re.compile(
    r"/deps/jars/("
    r"hadoop-(annotations|auth|common|hdfs)|commons-(cli|codec|collections|configuration|io|lang|"
    r"logging|math3|net)|guava|htrace-core|jackson-(core|mapper)-asl|javax\.servlet-api|jetty|"
    r"jetty-util|leveldbjni-all|log4j|netty(-all)?|protobuf-java|slf4j-(api|log4j12)|xercesImpl|"
    r"javax\.ws\.rs-api|xmlenc|xml-apis|apacheds-.*|api-.*|avro|curator-.*|zookeeper)-\d[^/]*\.jar$"
)


def fetch(folder: Path) -> None:
    """Take the jars out of the package.

    Raises:
        subprocess.CalledProcessError: pip failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "venv", f"{scratch}/tools"], check=True)
        pip = [f"{scratch}/tools/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "setuptools<70", "wheel"], check=True)
        options = ["--no-deps", "--no-build-isolation", "--dest", scratch]
        subprocess.run([*pip, "download", *options, RELEASE], check=True)
        (package,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(package) as archive:
            for member in archive:
                if _WANTED.search(member.name) and (content := archive.extractfile(member)):
                    (folder / PurePosixPath(member.name).name).write_bytes(content.read())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    if folder.is_dir():
        print(f"HDFS has been fetched already: {folder}")
        return
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    fetch(unfinished)
    if not list(unfinished.glob("hadoop-hdfs-*.jar")):
        raise SystemExit(f"the download has no HDFS: {sorted(unfinished.iterdir())}")
    unfinished.rename(folder)


if __name__ == "__main__":
    main()
