"""A Spark session that is quiet and bound to this machine, for loads that bring none."""

import os
import sys
import warnings
from importlib import resources
from typing import Any


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
    """
    with warnings.catch_warnings():
        # PySpark warns of libraries that are not used here.
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

    # Workers of another interpreter would lack this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = resources.files("spark_loader") / "log4j2.properties"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet}",
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.getOrCreate()
