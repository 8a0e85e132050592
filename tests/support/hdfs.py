"""A genuine HDFS, a name node and a data node as processes of this machine.

`make hdfs` fetches the jars; `ZKBROKER_HDFS` names another folder of them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.process import wait_until
from zkbroker.zookeeper.embedded import free_port

PLACE = Path(os.environ.get("ZKBROKER_HDFS") or Path(sys.executable).parent.parent / "hdfs")
REASON = "a genuine HDFS is not here: make hdfs"

_NODES = "org.apache.hadoop.hdfs.server"
# It was made for Java 8, and uses Java's internal classes.
_OPENED = ("java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch", "jdk.internal.ref")
_LOG = """log4j.rootLogger=INFO,c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%p %c{1}: %m%n
"""


def missing() -> bool:
    """Whether the jars are not here."""
    return not PLACE.is_dir()


@contextmanager
def running_hdfs(place: Path) -> Iterator[str]:
    """Run an HDFS in a directory; yields its URI."""
    port = free_port()
    conf = place / "conf"
    for each in ("hdfs", "datanode", "static"):
        (conf / "webapps" / each).mkdir(parents=True)
    settings = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{port}",
        "dfs.namenode.name.dir": f"file://{place}/name",
        "dfs.datanode.data.dir": f"file://{place}/data",
        "dfs.replication": "1",
        "dfs.webhdfs.enabled": "false",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.http-address": "127.0.0.1:0",
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.namenode.safemode.extension": "0",
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (conf / name).write_text(f"<configuration>{properties}</configuration>")
    (conf / "log4j.properties").write_text(_LOG)
    subprocess.run(
        [*_java(conf), f"{_NODES}.namenode.NameNode", "-format", "-nonInteractive"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    nodes = []
    try:
        for name, ready in (
            ("namenode.NameNode", "NameNode RPC up at"),
            ("datanode.DataNode", "Successfully sent block report"),
        ):
            log_file = place / f"{name}.log"
            with log_file.open("wb") as log:
                node = subprocess.Popen([*_java(conf), f"{_NODES}.{name}"], stdout=log, stderr=log)
            nodes.append(node)

            def started(log_file: Path = log_file, ready: str = ready) -> bool:
                return ready in log_file.read_text()

            assert wait_until(started, 120), log_file.read_text()[-2000:]
        yield settings["fs.defaultFS"]
    finally:
        for node in nodes:
            node.kill()
            node.wait()


def _java(conf: Path) -> list[str]:
    opened = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _OPENED]
    kerberos = "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"
    java = shutil.which("java") or "java"
    return [java, "-Xmx256m", *opened, kerberos, "-cp", f"{conf}:{PLACE}/*"]
