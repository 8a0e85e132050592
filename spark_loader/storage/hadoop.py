"""Any file system that Hadoop supports, through the Java classes that come with Spark.

    driver      the session's own Java machine
    worker      its own Java machine, started at first use, which ends with the worker

Invariant: the same guarantees as for local directories, from those of Hadoop file systems: `rename`
is atomic, and `create` without overwriting fails when the name exists. Data never passes through
the bridge between Python and Java: large files are written locally, then copied by Java.
"""

import contextlib
import importlib.util
import logging
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from spark_loader.storage.files import FileStatus, LockedError, OutputFile
from spark_loader.storage.table_log import MirroredTableLog
from spark_loader.storage.uploads import UploadedFile, renewed

logger = logging.getLogger(__name__)

_LOCK_REFRESH_S = 20.0
_LOCK_STALE_S = 120.0
_JVM: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class HadoopFileSystem:
    """A Hadoop file system; picklable, connected at first use in each process.

    Attributes:
        root: a URI of it, such as the output directory.
        settings: Hadoop properties, those of the driver's session.
    """

    root: str
    # Credentials may be among them.
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def create(self, path: str) -> OutputFile:
        return UploadedFile(lambda local: self.upload(local, path))

    def publish(self, path: str, data: bytes) -> bool:
        fs, target = self._at(path)
        if fs.exists(target):
            return False
        temporary = self._write_beside(path, data)
        return self._rename_new(fs, temporary, target)

    def replace(self, path: str, data: bytes) -> None:
        fs, target = self._at(path)
        temporary = self._write_beside(path, data)
        fs.delete(target, False)
        if not fs.rename(temporary, target):
            raise OSError(f"{path} cannot be written")

    def read(self, path: str) -> bytes:
        if self.size(path) is None:
            raise FileNotFoundError(path)
        with self.opened(path) as local:
            return local.read_bytes()

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[Path]:
        fs, source = self._at(path)
        with tempfile.TemporaryDirectory(prefix="zkbroker-load-") as directory:
            local = Path(directory) / Path(path).name
            fs.copyToLocalFile(False, source, self._path(f"file://{local}"), True)
            yield local

    def size(self, path: str) -> int | None:
        fs, target = self._at(path)
        return int(fs.getFileStatus(target).getLen()) if fs.exists(target) else None

    def rename(self, source: str, target: str) -> None:
        fs, there = self._at(target)
        here = self._path(source)
        if not fs.exists(here):
            if not fs.exists(there):
                raise FileNotFoundError(source)
            return
        fs.mkdirs(there.getParent())
        if not fs.rename(here, there):
            raise OSError(f"{source} cannot be renamed to {target}")

    def delete(self, path: str) -> None:
        fs, target = self._at(path)
        fs.delete(target, False)

    def names(self, path: str) -> list[str]:
        fs, directory = self._at(path)
        if not fs.exists(directory):
            return []
        return sorted(str(each.getPath().getName()) for each in fs.listStatus(directory))

    def walk(self, path: str) -> Iterator[FileStatus]:
        fs, directory = self._at(path)
        if not fs.exists(directory):
            return
        above = len(str(fs.makeQualified(directory).toString())) + 1
        found = fs.listFiles(directory, True)
        with java_errors(path):
            while found.hasNext():
                each = found.next()
                yield FileStatus(str(each.getPath().toString())[above:], int(each.getLen()))

    @contextlib.contextmanager
    def lock(self, path: str, owner: str) -> Iterator[None]:
        """Hold a lock file that is renewed while this process lives; a stale one is taken over."""
        if not self.publish(path, owner.encode()):
            self._take_over(path)
            if not self.publish(path, owner.encode()):
                raise LockedError(f"{path} was taken by another a moment ago")
        try:
            with renewed(lambda: self._renew(path, owner), _LOCK_REFRESH_S):
                yield
        finally:
            if self._holds(path, owner):
                self.delete(path)

    def table_log(self, output: str) -> MirroredTableLog:
        return MirroredTableLog(self, output)

    def _take_over(self, path: str) -> None:
        """Move a dead holder's lock away; raise LockedError when the holder is alive."""
        fs, target = self._at(path)
        modified = int(fs.getFileStatus(target).getModificationTime())
        if self._time_ms(path) - modified < _LOCK_STALE_S * 1000:
            held_by = self.read(path).decode()
            raise LockedError(f"{path} is held by {held_by}; a dead one's is free in 2 minutes")
        # If several clients find it stale, one moves it; a fresh lock moved by mistake is put back.
        aside = self._path(f"{path}.{uuid.uuid4().hex[:8]}.stale")
        if not fs.rename(target, aside):
            raise LockedError(f"{path} was taken by another a moment ago")
        if int(fs.getFileStatus(aside).getModificationTime()) != modified:
            fs.rename(aside, target)
            raise LockedError(f"{path} was taken by another a moment ago")
        fs.delete(aside, False)

    def _renew(self, path: str, owner: str) -> bool:
        """Renew the lock; return whether it is still held."""
        try:
            if not self._holds(path, owner):
                # The commits of the two holders conflict, and one is refused.
                logger.error("lock lost path=%s", path)
                return False
            # Overwritten, not deleted and created: the name is never free.
            self._write(path, owner.encode())
        except OSError as error:
            logger.warning("lock not renewed path=%s error=%s", path, error)
        return True

    def _holds(self, path: str, owner: str) -> bool:
        """Return whether a lock is still this owner's: another takes it over after a long pause."""
        try:
            # Empty if it could not be renewed to the end.
            return self.read(path) in (owner.encode(), b"")
        except FileNotFoundError:
            return False

    def _time_ms(self, path: str) -> int:
        """Return the time by the clock that sets the times of files; this machine's may differ."""
        directory, _, name = path.rpartition("/")
        probe = f"{directory}/.{name}.{uuid.uuid4().hex[:8]}.time"
        self._write(probe, b"")
        fs, written = self._at(probe)
        try:
            return int(fs.getFileStatus(written).getModificationTime())
        finally:
            fs.delete(written, False)

    def _write_beside(self, path: str, data: bytes) -> Any:
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}.{uuid.uuid4().hex[:8]}.tmp"
        self._write(temporary, data)
        return self._path(temporary)

    def _write(self, path: str, data: bytes) -> None:
        with tempfile.NamedTemporaryFile(prefix="zkbroker-load-") as local:
            local.write(data)
            local.flush()
            self.upload(Path(local.name), path)

    def _rename_new(self, fs: Any, temporary: Any, target: Any) -> bool:
        """Rename unless the name exists, which file systems report by a result or an error."""
        try:
            renamed = bool(fs.rename(temporary, target))
        except OSError:
            renamed = False
        if not renamed:
            fs.delete(temporary, False)
            if not fs.exists(target):
                raise OSError(f"{target.toString()} cannot be written")
        return renamed

    def upload(self, local: Path, path: str) -> None:
        """Copy a local file there, over an older one."""
        fs, target = self._at(path)
        fs.mkdirs(target.getParent())
        fs.copyFromLocalFile(False, True, self._path(f"file://{local}"), target)

    def _at(self, path: str) -> tuple[Any, Any]:
        jvm = java()
        target = self._path(path)
        conf = jvm.org.apache.hadoop.conf.Configuration()
        for key, value in self.settings.items():
            conf.set(key, value)
        with java_errors(path):
            return _Guarded(target.getFileSystem(conf), path), target

    def _path(self, path: str) -> Any:
        return java().org.apache.hadoop.fs.Path(path)


@contextlib.contextmanager
def java_errors(path: str) -> Iterator[None]:
    """Turn Java exceptions into an OSError of one line."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        # The text of a server's exception contains its trace.
        reason = str(error.java_exception.toString()).partition("\n")[0]
        raise OSError(f"{path}: {reason}") from None


class _Guarded:
    """A Java file system whose exceptions become OSErrors."""

    def __init__(self, inner: Any, path: str) -> None:
        self._inner = inner
        self._path = path

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*arguments: Any) -> Any:
            with java_errors(self._path):
                return method(*arguments)

        return call


def use_session(spark: Any) -> None:
    """Use the Java machine of a Spark session in this process."""
    _JVM["jvm"] = spark._jvm


def hadoop_settings(spark: Any) -> dict[str, str]:
    """Return the Hadoop properties that a session has beyond Hadoop's own defaults.

    They come from `spark.hadoop.…` and from the files of `HADOOP_CONF_DIR`, which the workers'
    nodes need not have.
    """
    text = spark._jvm.java.io.StringWriter()
    spark.sparkContext._jsc.hadoopConfiguration().writeXml(text)
    settings = {}
    # This process's own Java machine wrote it a moment ago.
    for each in ET.fromstring(text.toString()):  # noqa: S314
        name, value = each.findtext("name"), each.findtext("value")
        sources = [source.text or "" for source in each.findall("source")]
        if name and value is not None and not any(s.endswith("-default.xml") for s in sources):
            settings[name] = value
    return settings


def java() -> Any:
    """Return a Java machine with Hadoop's classes; one per process."""
    key = f"jvm-{os.getpid()}"
    jvm = _JVM.get(key) or _JVM.get("jvm")
    if jvm is None:
        jvm = _JVM[key] = _start_java()
    return jvm


def _start_java() -> Any:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    # Found, not imported: that takes seconds and warns of libraries that are not used here.
    found = importlib.util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or str(Path((found and found.origin) or "").parent)
    jars = Path(home) / "jars"
    [bridge] = jars.glob("py4j-*.jar")
    java_home = os.environ.get("JAVA_HOME")
    # Beside Hadoop's own classes: its configuration, and the files of `spark.jars`.
    places = [os.environ.get("HADOOP_CONF_DIR", ""), f"{jars}/*", str(Path.cwd() / "*")]
    port, token = launch_gateway(
        jarpath=str(bridge),
        classpath=os.pathsep.join(filter(None, places)),
        die_on_exit=True,
        enable_auth=True,
        java_path=f"{java_home}/bin/java" if java_home else "java",
        javaopts=["-Xmx256m", "--add-opens=java.base/java.lang=ALL-UNNAMED"],
        return_proc=False,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    return JavaGateway(gateway_parameters=parameters).jvm
