"""A Spark session that is quiet and bound to this machine, for loads that bring none."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from spark_loader.errors import LoadError
from zkbroker.registry.java import java_environment, require_java


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
    with warnings.catch_warnings(), _environment_of_java(), _ctrl_c_later():
        warnings.simplefilter("ignore")
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            require_java()
            raise LoadError(f"Spark did not start, see what Java said above: {error}") from error


@contextmanager
def _environment_of_java() -> Iterator[None]:
    """Give PySpark, which hands this process's environment to Java, the one that Java needs."""
    before = dict(os.environ)
    os.environ.update(java_environment())
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Hold an interrupt back until Spark has started.

    PySpark that is interrupted while it waits for Java leaves that Java running for ever.
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
        # A Spark context has put a handler of its own there by now.
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if interrupts:
        raise KeyboardInterrupt
