"""A quiet Spark session bound to this machine, for loads that are not given one."""

import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from spark_loader.errors import LoadError
from zkbroker.zookeeper.java import java_environment, require_java

# How long to read the error output of a Java that did not start.
_STDERR_WAIT_S = 5.0
# Java warns of an option that Spark itself sets.
_IGNORED_LINES = frozenset({"WARNING: Using incubator modules: jdk.incubator.vector"})


def session(
    master: str = "local[*,4]",
    *,
    app_name: str = "zkbroker-load",
    conf: dict[str, str] | None = None,
) -> Any:
    """Make a Spark session, or return the one that is active.

    Args:
        master: Spark master URL; in local mode the number after the comma is how often a task is
            tried.
        app_name: shown by Spark.
        conf: more Spark properties; they win over the ones set here.

    Raises:
        RegistryError: there is no Java, or it is too old.
        LoadError: Spark did not start for another reason.
    """
    with warnings.catch_warnings():
        # PySpark warns of libraries that are not used here.
        warnings.simplefilter("ignore")
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession

    # Workers of another interpreter would lack this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = Path(str(resources.files("spark_loader") / "log4j2.properties"))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.python.filterPushdown.enabled": "true",
        # As a URI: a space in a path would end the option.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet.as_uri()}",
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings(), _environment_of_java(), _interrupts_deferred():
        warnings.simplefilter("ignore")
        try:
            _start_java({**settings, **(conf or {}), "spark.master": master})
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            require_java()
            raise LoadError(f"Spark did not start, see what Java said above: {error}") from error


def _start_java(settings: Mapping[str, str]) -> None:
    """Start the Java machine of this process's sessions; Python relays its error output.

    Output that Java wrote to the terminal itself would break a progress display; the display makes
    room for output to `sys.stderr`.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    reading, writing = os.pipe()
    relay = threading.Thread(target=_relay, args=(reading,), name="java-stderr", daemon=True)
    relay.start()
    started = False
    launch: Any = launch_gateway
    given = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    try:
        SparkContext._ensure_initialized(gateway=launch(given, popen_kwargs={"stderr": writing}))
        started = True
    finally:
        os.close(writing)
        if not started:
            # Java's output comes before the error that refers to it.
            relay.join(_STDERR_WAIT_S)


def _relay(reading: int) -> None:
    with os.fdopen(reading, errors="replace") as lines:
        for line in lines:
            if line.rstrip() not in _IGNORED_LINES:
                sys.stderr.write(line)
                sys.stderr.flush()


def interruptible_session(master: str, conf: dict[str, str] | None) -> Any:
    """Make a session that leaves Ctrl-C to this process; see `session`.

    Spark's own handler asks Java to cancel its jobs, on a connection that is already waiting for an
    answer, and fails with two tracebacks. Spark installs it in the main thread only. Stopping the
    session ends its jobs as well.
    """
    with _interrupts_deferred(), ThreadPoolExecutor(1, "spark-start") as starter:
        return starter.submit(session, master, conf=conf).result()


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Keep Py4J from logging an interrupt as an error with a traceback."""
    # Py4J uses the root logger too.
    loggers = [logging.getLogger(name) for name in (None, "py4j.clientserver", "py4j.java_gateway")]
    for logger in loggers:
        logger.addFilter(_no_interrupt)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_no_interrupt)


def _no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a log record is about anything but an interrupt and its consequences."""
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return False
        error = error.__context__
    return True


class SparkWhenNeeded:
    """A Spark session that is started when it is first asked for, and stopped at the end.

    Args:
        start: makes a session.
        given: a session of the caller's own, which is left running.

    Attributes:
        seconds: how long the start took.
    """

    def __init__(self, start: Callable[[], Any], given: Any = None) -> None:
        self._start = start
        self._given = given
        self._own: Any = None
        self._open = ExitStack()
        self.seconds = 0.0

    def session(self) -> Any:
        """Return the session."""
        if self._given is not None:
            return self._given
        if self._own is None:
            began = time.monotonic()
            self._open.enter_context(quiet_interrupts())
            self._own = self._start()
            self._open.callback(self._own.stop)
            self.seconds = time.monotonic() - began
        return self._own

    def __enter__(self) -> "SparkWhenNeeded":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


@contextmanager
def _environment_of_java() -> Iterator[None]:
    """Set the environment that Java needs: PySpark hands this process's environment to Java."""
    before = dict(os.environ)
    os.environ.update(java_environment())
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Hold an interrupt back until Spark has started.

    If PySpark is interrupted while it waits for Java, that Java runs for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread only
        return
    interrupts: list[int] = []

    def note(number: int, frame: object) -> None:
        interrupts.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        # Unless a Spark context has installed its own handler.
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if interrupts:
        raise KeyboardInterrupt
