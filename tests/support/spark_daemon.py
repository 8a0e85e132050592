"""PySpark's daemon of Python workers, with the loader imported before it forks.

Spark starts a Python process for each step of each plan. PySpark's own daemon leaves the imports to
them, half a second each time. No thread runs when the daemon forks: importing starts none.
"""

import threading

import pyspark.daemon

import spark_loader.source.datasource  # noqa: F401 - imported for the forks

if __name__ == "__main__":
    assert threading.active_count() == 1
    pyspark.daemon.manager()
